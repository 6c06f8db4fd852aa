"""Which format a file has, and what goes for both."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from cede.checkpoint.tensors import TensorDict
from cede.errors import CheckpointError, LoweringError
from cede.files import write_whole

if TYPE_CHECKING:
    from collections.abc import Mapping
    from types import ModuleType

    from cede.checkpoint.tensors import Held
    from cede.config import Config

SAFETENSORS, GGUF = ".safetensors", ".gguf"


def save(
    path: Path | str,
    tensors: Mapping[str, Held],
    metadata: Mapping[str, Any] | None = None,
) -> None:
    """Write named tensors to a `.safetensors` or `.gguf` file, whole or not at all.

    In a safetensors file an encoded tensor is its bytes (uint8), and the header's metadata say
    which encoding. A GGUF file holds only dtypes and encodings that have a type there.

    Args:
        path: its suffix chooses the format.
        tensors: a `TensorDict`, or any mapping of names.
        metadata: to store besides; None takes those of a `TensorDict`.

    Raises:
        CheckpointError: another suffix, a tensor that the format can't hold, or a file that can't
            be written; what was there before is as it was.
    """
    path = Path(path)
    if path.suffix not in (SAFETENSORS, GGUF):
        raise CheckpointError(f"{path}: a checkpoint ends in {SAFETENSORS} or {GGUF}")
    if not isinstance(tensors, TensorDict):
        tensors = TensorDict(tensors, metadata)
    elif metadata is not None:
        tensors = TensorDict.holding(tensors.held(), TensorDict({}, metadata).metadata)
    data = _module(path.suffix == GGUF).dump(tensors, str(path))
    try:
        write_whole(path, data)
    except LoweringError as error:
        raise CheckpointError(str(error)) from error


def load(path: Path | str, *, config: Config | None = None) -> TensorDict:
    """Read a safetensors or GGUF file; its content says which it is.

    Tensors of a GGUF file in an encoding that nobody brings are decoded to float32, with a warning.

    Args:
        path: the file.
        config: whose plugins may bring encodings; None asks those that are installed.

    Raises:
        CheckpointError: no such file, damage, or a dtype or encoding that can't be read.
    """
    path = Path(path)
    result: TensorDict = _module(_is_gguf(path)).read(str(path), config)
    return result


def keys(path: Path | str) -> tuple[str, ...]:
    """The names in a file, in its order, without reading the tensors. Raises as `load` does."""
    path = Path(path)
    found: tuple[str, ...] = _module(_is_gguf(path)).names(str(path))
    return found


def _is_gguf(path: Path) -> bool:
    try:
        with path.open("rb") as file:
            begin = file.read(4)
    except OSError as error:
        raise CheckpointError(f"{path}: can't be read: {error.strerror or error}") from None
    if path.suffix == GGUF and begin != b"GGUF":
        raise CheckpointError(f"{path}: no GGUF file, it begins with {begin!r}")
    return begin == b"GGUF"


def _module(gguf: bool) -> ModuleType:
    from cede.checkpoint import gguf_file, safetensors_file

    return gguf_file if gguf else safetensors_file
