"""The data file (`.ptd`) beside a program.

The format is ExecuTorch's `extension/flat_tensor/serialize/flat_tensor.fbs`; its serializer is not
public, and this is the only file that knows it.
"""

from __future__ import annotations

import tempfile
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from executorch.exir._serialize._cord import Cord
from executorch.exir._serialize.data_serializer import DataEntry, DataPayload
from executorch.extension.flat_tensor.serialize.serialize import (
    FlatTensorConfig,
    FlatTensorSerializer,
)

from cede.errors import LoweringError

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from cede.running.pte import Pte

    Files = Path | str | Sequence[Path | str]

WEIGHTS, ADAPTERS = "weights", "adapters"
"""Kinds of data files."""

PAIRS = {
    WEIGHTS: ("cede.needs", "cede.has"),
    ADAPTERS: ("cede.needs.adapters", "cede.has.adapters"),
}
"""Keys of named data in program and data file, with equal values: what delegates have there.

ExecuTorch's runtime may die of a delegate whose data is not there.
"""


def weights_in(files: Files) -> tuple[bytes, str]:
    """What data files hold, as the bytes of one, and what to call them.

    Raises LoweringError for one that can't be read, or that contradicts another.
    """
    held = {str(each): content(each) for each in (
        [files] if isinstance(files, Path | str) else files
    )}  # fmt: skip
    return merged(held), ", ".join(held)


def content(path: Path | str) -> bytes:
    """The bytes of a file. Raises LoweringError naming the path."""
    try:
        return Path(path).read_bytes()
    except OSError as error:
        raise LoweringError(f"{path}: can't be read: {error.strerror or error}") from None


def merged(files: Mapping[str, bytes]) -> bytes:
    """One data file with what several hold: ExecuTorch's Python runtime takes one.

    Args:
        files: bytes by what error messages call them.

    Raises:
        LoweringError: a damaged one, or two that hold different data under one key.
    """
    if len(files) == 1:
        return next(iter(files.values()))
    buffers: list[Any] = []
    named: dict[str, DataEntry] = {}
    for origin, data in files.items():
        found = _parsed(data, origin)
        for key, entry in found.named_data.items():
            value = found.buffers[entry.buffer_index]
            if key not in named:
                named[key] = replace(entry, buffer_index=len(buffers))
                buffers.append(value)
            elif buffers[named[key].buffer_index] != value:
                raise LoweringError(
                    f"{origin}: has another {key} than the file before it; give the files"
                    " that were written with the program"
                )
    payload = DataPayload(buffers=buffers, named_data=named)
    return bytes(FlatTensorSerializer(FlatTensorConfig()).serialize(payload))


def read_weights(weights: bytes, origin: str) -> dict[str, bytes]:
    """What a data file holds, by key. Raises LoweringError for a damaged one."""
    found = _parsed(weights, origin)
    return {key: bytes(found.buffers[e.buffer_index]) for key, e in found.named_data.items()}


def _parsed(weights: bytes, origin: str) -> DataPayload:
    try:
        return flat_tensors(weights)
    except ValueError as error:
        raise LoweringError(
            f"{origin}: no data file (.ptd) of ExecuTorch, or a damaged one ({error}); export it"
            " again"
        ) from error


def flat_tensors(data: bytes) -> DataPayload:
    """What a data file holds, as ExecuTorch has it. Raises ValueError for a damaged one."""
    try:
        return FlatTensorSerializer(FlatTensorConfig()).deserialize(Cord(data))
    except Exception as error:  # whatever it makes of a damaged file
        raise ValueError(str(error).strip() or type(error).__name__) from error


def insist_on_pair(pte: Pte, weights_origin: str) -> None:
    """Raise LoweringError where the data file belongs to another program."""
    for needs, has in PAIRS.values():
        if has in pte.named and pte.named.get(needs) != pte.named[has]:
            raise LoweringError(
                f"{weights_origin}: the data file of another program than {pte.origin}; give the"
                " one that was written with it"
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
