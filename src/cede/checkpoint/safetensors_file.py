"""Safetensors files (https://github.com/huggingface/safetensors).

An encoded tensor is stored as its bytes; the key `cede` of the header's metadata is a JSON object
with the encoding, shape and dtype of each (`encoded`), and metadata that are no text (`metadata`).
"""

from __future__ import annotations

import json
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save

from cede.checkpoint.tensors import TensorDict
from cede.errors import CedeError, CheckpointError
from cede.quant.encodings import QuantizedTensor, find

if TYPE_CHECKING:
    from collections.abc import Iterator

    from cede.checkpoint.tensors import Held
    from cede.config import Config

KEY = "cede"


def dump(tensors: TensorDict, path: str) -> bytes:
    """The bytes of a file. Raises CheckpointError naming what it can't hold."""
    plain: dict[str, torch.Tensor] = {}
    encoded: dict[str, dict[str, Any]] = {}
    for name, value in tensors.held().items():
        if isinstance(value, QuantizedTensor):
            plain[name] = value.data
            encoded[name] = {
                "encoding": value.encoding,
                "shape": list(value.shape),
                "dtype": str(value.dtype).removeprefix("torch."),
            }
        else:
            plain[name] = value
    metadata = tensors.metadata
    texts = {key: value for key, value in metadata.items() if isinstance(value, str)}
    if KEY in metadata:
        raise CheckpointError(f"{path}: the key {KEY!r} of the metadata is cede's own")
    others = {key: value for key, value in metadata.items() if key not in texts}
    if encoded or others:
        texts[KEY] = json.dumps({"encoded": encoded, "metadata": others})
    try:
        return save(plain, texts or None)
    except (SafetensorError, RuntimeError, ValueError, KeyError, TypeError) as error:
        raise CheckpointError(f"{path}: safetensors can't hold these tensors: {error}") from error


def read(path: str, config: Config | None) -> TensorDict:
    """The content of a file. Raises CheckpointError."""
    with _open(path) as file:
        texts = dict(file.metadata() or {})
        own = _own(texts.pop(KEY, "{}"), path)
        held: dict[str, Held] = {name: file.get_tensor(name) for name in file.keys()}
    for name, form in own["encoded"].items():
        held[name] = _quantized(path, name, held.get(name), form, config)
    return TensorDict.holding(held, {**texts, **own["metadata"]})


def names(path: str) -> tuple[str, ...]:
    """The names in a file. Raises CheckpointError."""
    with _open(path) as file:
        return tuple(file.keys())


@contextmanager
def _open(path: str) -> Iterator[Any]:
    try:
        with safe_open(path, framework="pt") as file:
            yield file
    except CedeError:
        raise
    except (SafetensorError, OSError, RuntimeError, ValueError, KeyError, TypeError) as error:
        raise CheckpointError(f"{path}: damaged, or no safetensors file: {error}") from error


def _own(text: str, path: str) -> dict[str, dict[str, Any]]:
    try:
        given = json.loads(text)
        own = {key: dict(given.get(key, {})) for key in ("encoded", "metadata")}
    except (ValueError, AttributeError, TypeError) as error:
        raise CheckpointError(f"{path}: the metadata {KEY!r} are damaged: {error}") from error
    return own


def _quantized(
    path: str, name: str, data: Held | None, form: Any, config: Config | None
) -> QuantizedTensor:
    if not isinstance(data, torch.Tensor):
        raise CheckpointError(f"{path}: the encoded tensor {name!r} is missing")
    try:
        dtype = getattr(torch, form["dtype"])
        encoding = find(form["encoding"], config)
        return QuantizedTensor(data, encoding, [int(size) for size in form["shape"]], dtype)
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        raise CheckpointError(
            f"{path}: the metadata of the encoded tensor {name!r} are damaged: {error!r}"
        ) from error
    except CedeError as error:
        raise CheckpointError(f"{path}: {name}: {error}") from error
