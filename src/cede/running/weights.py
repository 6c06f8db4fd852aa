"""The data file (`.ptd`) beside a program.

The format is ExecuTorch's `extension/flat_tensor/serialize/flat_tensor.fbs`; its serializer is not
public, and this is the only file that knows it.
"""

from __future__ import annotations

import tempfile
from typing import TYPE_CHECKING

from executorch.exir._serialize._cord import Cord
from executorch.extension.flat_tensor.serialize.serialize import (
    FlatTensorConfig,
    FlatTensorSerializer,
)

from cede.errors import LoweringError

if TYPE_CHECKING:
    from pathlib import Path

    from executorch.exir._serialize.data_serializer import DataPayload

    from cede.running.pte import Pte

NEEDS, HAS = "cede.needs", "cede.has"
"""Keys of named data in the two files of a pair, with equal values: what delegates have there.

ExecuTorch's runtime may die of a delegate whose data is not there.
"""


def read_weights(weights: bytes, origin: str) -> dict[str, bytes]:
    """What a data file holds, by key. Raises LoweringError for a damaged one."""
    try:
        found = flat_tensors(weights)
    except ValueError as error:
        raise LoweringError(
            f"{origin}: no data file (.ptd) of ExecuTorch, or a damaged one ({error}); export it"
            " again"
        ) from error
    return {key: bytes(found.buffers[e.buffer_index]) for key, e in found.named_data.items()}


def flat_tensors(data: bytes) -> DataPayload:
    """What a data file holds, as ExecuTorch has it. Raises ValueError for a damaged one."""
    try:
        return FlatTensorSerializer(FlatTensorConfig()).deserialize(Cord(data))
    except Exception as error:  # whatever it makes of a damaged file
        raise ValueError(str(error).strip() or type(error).__name__) from error


def insist_on_pair(pte: Pte, weights_origin: str) -> None:
    """Raise LoweringError where the data file belongs to another program."""
    needs, has = pte.named.get(NEEDS), pte.named.get(HAS)
    if has is not None and needs != has:
        raise LoweringError(
            f"{weights_origin}: the data file of another program than {pte.origin}; give the one"
            " that was written with it"
        )


class Weights:
    """The data file of a program on disk, as long as this object lives.

    Args:
        pte: the program.
        path: where the file lies, None where it has to be written first.

    Attributes:
        path: of the file, None where the program has none.

    Raises:
        LoweringError: the program needs a data file and has none, or it can't be written.
    """

    def __init__(self, pte: Pte, path: Path | str | None = None) -> None:
        if lacks := pte.lacks:
            more = f" and {len(lacks) - 1} more" if len(lacks) > 1 else ""
            raise LoweringError(
                f"{pte.origin}: its weights ({lacks[0]}{more}) stand in a data file (.ptd): give"
                " it too, with `--external-weights` or `weights`"
            )
        self.path: str | None = str(path) if path is not None and pte.weights else None
        if pte.weights and path is None:
            try:
                self._file = tempfile.NamedTemporaryFile(prefix="cede-", suffix=".ptd")
                self._file.write(pte.weights)
                self._file.flush()
            except OSError as error:
                raise LoweringError(
                    f"{pte.origin}: its weights can't be written to {tempfile.gettempdir()}:"
                    f" {error.strerror or error}"
                ) from None
            self.path = self._file.name
