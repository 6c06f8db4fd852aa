"""GGUF files, by PyPI `gguf` (https://github.com/ggml-org/ggml/blob/master/docs/gguf.md).

What a type of GGUF doesn't tell about an encoded tensor, its dtype before and that a bfloat16 one
was encoded, stands in a JSON object under the key `cede.encoded`.
"""

from __future__ import annotations

import json
import sys
import tempfile
import warnings
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from cede.checkpoint.tensors import TensorDict
from cede.errors import CedeError, CheckpointError
from cede.quant.encodings import QuantizedTensor, find
from cede.quant.encodings import names as encoding_names
from cede.types import block_bytes

if TYPE_CHECKING:
    from gguf import GGUFReader, GGUFWriter

    from cede.checkpoint.tensors import Held
    from cede.config import Config

KEY = "cede.encoded"
ARCHITECTURE = "general.architecture"
ALIGNMENT = "general.alignment"
NO_ARCHITECTURE = "cede-checkpoint"
DIMENSIONS = 4
PLAIN = {
    "F16": torch.float16, "F32": torch.float32, "F64": torch.float64, "BF16": torch.bfloat16,
    "I8": torch.int8, "I16": torch.int16, "I32": torch.int32, "I64": torch.int64,
}  # fmt: skip


def dump(tensors: TensorDict, path: str) -> bytes:
    """The bytes of a file. Raises CheckpointError naming what it can't hold."""
    from gguf import GGUFWriter

    _installed(path)
    metadata = tensors.metadata
    with tempfile.TemporaryDirectory() as folder:
        made = Path(folder) / "checkpoint.gguf"
        writer = GGUFWriter(made, str(metadata.pop(ARCHITECTURE, NO_ARCHITECTURE)))
        _add_metadata(writer, metadata, path)
        encoded = {}
        for name, value in tensors.held().items():
            if isinstance(value, QuantizedTensor):
                encoded[name] = str(value.dtype).removeprefix("torch.")
            _add_tensor(writer, name, value, path)
        if encoded:
            writer.add_string(KEY, json.dumps(encoded))
        try:
            writer.write_header_to_file()
            writer.write_kv_data_to_file()
            writer.write_tensors_to_file()
        except (OSError, ValueError) as error:
            raise CheckpointError(f"{path}: GGUF can't hold this: {error}") from error
        finally:
            writer.close()
        return made.read_bytes()


def read(path: str, config: Config | None) -> TensorDict:
    """The content of a file. Raises CheckpointError."""
    reader = _open(path)
    metadata = _metadata(reader, path)
    if metadata.get(ARCHITECTURE) == NO_ARCHITECTURE:
        del metadata[ARCHITECTURE]
    try:
        encoded = dict(json.loads(metadata.pop(KEY, "{}")))
    except (ValueError, TypeError) as error:
        raise CheckpointError(f"{path}: the metadata {KEY!r} are damaged: {error}") from error
    known = set(encoding_names(config))
    held: dict[str, Held] = {}
    foreign: dict[str, list[str]] = {}
    for tensor in reader.tensors:
        kind, name = tensor.tensor_type.name, tensor.name
        try:
            if kind in PLAIN and name not in encoded:
                held[name] = _plain(tensor.data, kind)
            elif kind.lower() in known:
                held[name] = _quantized(tensor, encoded.get(name, "float32"), config)
            else:
                foreign.setdefault(kind, []).append(name)
                held[name] = _decoded(tensor)
        except CedeError as error:
            raise CheckpointError(f"{path}: {name}: {error}") from error
    for kind, found in foreign.items():
        warnings.warn(
            f"{path}: {len(found)} tensors of type {kind}, for which there is no encoding, were"
            f" decoded to float32: {', '.join(found[:5])}{', ...' * (len(found) > 5)}",
            stacklevel=3,
        )
    return TensorDict.holding(held, metadata)


def read_metadata(path: str) -> dict[str, Any]:
    """The metadata of a file, without its tensors. Raises CheckpointError."""
    return _metadata(_open(path), path)


def names(path: str) -> tuple[str, ...]:
    """The names in a file. Raises CheckpointError."""
    return tuple(tensor.name for tensor in _open(path).tensors)


def _installed(path: str) -> None:
    try:
        import gguf  # noqa: F401
    except ImportError as error:
        raise CheckpointError(
            f"{path}: GGUF files need the package gguf: pip install 'cede[gguf]' ({error})"
        ) from None


def _open(path: str) -> GGUFReader:
    _installed(path)
    from gguf import GGUFEndian, GGUFReader

    try:
        reader = GGUFReader(path)
    except Exception as error:  # whatever slices of a damaged file lead to
        raise CheckpointError(
            f"{path}: damaged, cut short, or no GGUF file: {type(error).__name__}: {error}"
        ) from error
    if reader.endianess is not GGUFEndian.LITTLE or sys.byteorder != "little":
        raise CheckpointError(f"{path}: a big-endian file or machine; convert the file")
    return reader


def _metadata(reader: GGUFReader, path: str) -> dict[str, Any]:
    return {key: _contents(reader, key, path) for key in _metadata_keys(reader)}


def _metadata_keys(reader: GGUFReader) -> list[str]:
    return [key for key in reader.fields if not key.startswith("GGUF.") and key != ALIGNMENT]


def _contents(reader: GGUFReader, key: str, path: str) -> Any:
    try:
        return reader.fields[key].contents()
    except (UnicodeDecodeError, IndexError, ValueError) as error:
        raise CheckpointError(f"{path}: the metadata {key!r} are damaged: {error}") from error


def _plain(data: np.ndarray[Any, Any], kind: str) -> torch.Tensor:
    values = torch.from_numpy(np.array(data))
    return values.view(torch.bfloat16) if kind == "BF16" else values


def _quantized(tensor: Any, dtype: str, config: Config | None) -> QuantizedTensor:
    encoding = find(tensor.tensor_type.name.lower(), config)
    data = torch.from_numpy(np.array(tensor.data))
    blocks = data.shape[-1] // block_bytes(encoding)
    shape = (*data.shape[:-1], blocks * encoding.block_size)
    found = getattr(torch, dtype, None)
    if not isinstance(found, torch.dtype):
        raise CheckpointError(f"its dtype is {dtype!r}, which torch does not know")
    return QuantizedTensor(data, encoding, shape, found)


def _decoded(tensor: Any) -> torch.Tensor:
    from gguf import dequantize

    try:
        values = dequantize(tensor.data, tensor.tensor_type)
    except (NotImplementedError, ValueError) as error:
        raise CheckpointError(
            f"nobody brings the encoding {tensor.tensor_type.name.lower()}, and gguf can't decode"
            f" it {error}"
        ) from error
    return torch.from_numpy(np.array(values, np.float32))


def _add_tensor(writer: GGUFWriter, name: str, value: Held, path: str) -> None:
    from gguf import GGML_QUANT_SIZES, GGMLQuantizationType

    if len(value.shape) > DIMENSIONS:
        raise CheckpointError(
            f"{path}: {name} has {len(value.shape)} dimensions, GGUF has at most {DIMENSIONS}"
        )
    if isinstance(value, QuantizedTensor):
        kind, data = value.encoding.upper(), value.data
        encoding = find(value.encoding)
        size = (encoding.block_size, block_bytes(encoding))
        if kind not in GGMLQuantizationType.__members__ or size != GGML_QUANT_SIZES.get(
            GGMLQuantizationType[kind]
        ):
            raise CheckpointError(
                f"{path}: {name} is {value.encoding}, which GGUF has no type for: write a"
                " .safetensors file, or dequantize it"
            )
    else:
        kinds = {dtype: kind for kind, dtype in PLAIN.items()}
        if value.dtype not in kinds:
            raise CheckpointError(
                f"{path}: {name} is {value.dtype}, which GGUF has no type for: write a .safetensors"
                " file, or convert it"
            )
        kind = kinds[value.dtype]
        data = value.view(torch.uint8) if kind == "BF16" and value.dim() else value
        if kind == "BF16" and not value.dim():
            raise CheckpointError(f"{path}: {name} is bfloat16 of no dimension: reshape it to (1,)")
    writer.add_tensor(name, data.numpy(), raw_dtype=GGMLQuantizationType[kind])


def _add_metadata(writer: GGUFWriter, metadata: dict[str, Any], path: str) -> None:
    """Text, booleans, integers (uint32, else int64), floats (float32), and lists of one kind."""
    from gguf import GGUFValueType

    for key, value in metadata.items():
        if key in (KEY, ALIGNMENT):
            raise CheckpointError(f"{path}: the metadata {key!r} are the file's own")
        try:
            if isinstance(value, list):
                kind = _kind(value)
                writer.add_key_value(key, value, GGUFValueType.ARRAY, GGUFValueType[kind])
            else:
                writer.add_key_value(key, value, GGUFValueType[_kind([value])])
        except (KeyError, ValueError) as error:
            raise CheckpointError(
                f"{path}: GGUF can't hold the metadata {key!r}, {str(value)[:60]!r}: text, a"
                " number, a boolean or a list of one of them that isn't empty"
            ) from error


def _kind(values: list[Any]) -> str:
    """The type of GGUF for values of one kind. Raises KeyError or ValueError."""
    [kind] = {type(value) for value in values}
    if kind is not int:
        return {str: "STRING", bool: "BOOL", float: "FLOAT32"}[kind]
    if len(values) > 1:
        return "INT32" if all(-(2**31) <= value < 2**31 for value in values) else "INT64"
    return "UINT32" if 0 <= values[0] < 2**32 else "INT64"
