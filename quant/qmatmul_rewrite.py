"""Rewriting a model: its linear layers and embeddings get encoded weights."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import torch
from torch import nn

from cede.errors import EncodingError
from cede.nearest import suggestion
from cede.policy.selector import is_under
from cede.quant.encodings import QuantizedTensor, quantize
from cede.quant.encodings.find import find
from cede.quant.encodings.rows import row_bytes
from cede.quant.noise import sqnr
from cede.quant.qmatmul_modules import QuantizedEmbedding, QuantizedLinear

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from cede.config import Config
    from cede.types import Encoding

_Key = tuple[int, torch.Size, tuple[int, ...]]


@dataclass(frozen=True, slots=True, kw_only=True)
class WeightRow:
    """What became of the weight of one linear layer or embedding.

    Attributes:
        module: its path.
        shape: of the weight.
        encoding: that it has now, "" if it was left.
        bytes_before: of the weight.
        bytes_after: of the encoded weight, `bytes_before` if it was left.
        sqnr: signal to quantization noise in dB, None if it was left.
        tied: path of the first module with the same weight, whose bytes it shares.
        reason: why it was left, "" if it wasn't.
    """

    module: str
    shape: tuple[int, ...]
    encoding: str = ""
    bytes_before: int
    bytes_after: int
    sqnr: float | None = None
    tied: str = ""
    reason: str = ""

    def __str__(self) -> str:
        head = f"{self.module} {list(self.shape)}"
        if self.reason:
            return f"{head}: left, {self.reason}"
        tied = f", shared with {self.tied}" if self.tied else ""
        sizes = f"{self.bytes_before:,} -> {self.bytes_after:,} bytes"
        return f"{head}: {self.encoding}, {sizes}, {self.sqnr:.1f} dB{tied}"


def quantize_weights(
    module: nn.Module,
    encoding: str | Encoding,
    select: Iterable[str] = ("**",),
    *,
    config: Config | None = None,
) -> tuple[WeightRow, ...]:
    """Replace `nn.Linear` and `nn.Embedding` inside a module by modules with encoded weights.

    What is encoded already is left: call it once for each encoding. Modules that share a weight
    share the encoded bytes; they are rewritten together or not at all.

    Args:
        module: changed in place.
        encoding: its name, or the record.
        select: globs over module paths, as `module` in a policy: "**" is any number of names, and
            what matches a module matches all inside it.
        config: whose plugins may bring the encoding; None asks those that are installed.

    Returns:
        One row for each linear layer and embedding, in the order of `named_modules`.

    Raises:
        ConfigError: nobody brings the encoding.
        EncodingError: a pattern that matches no linear layer or embedding, a weight with NaN or
            infinity, or a module that is such a layer itself. The module is then as it was.
        PluginError: a plugin that would bring the encoding failed.
    """
    if isinstance(module, nn.Linear | nn.Embedding):
        raise EncodingError(
            f"a {type(module).__name__} can't be replaced in itself: give the module that holds it"
        )
    record = find(encoding, config)
    layers, patterns = list(_layers(module)), tuple(select)
    _check_patterns(patterns, [name for name, _ in layers])
    reasons = _reasons(module, layers, patterns, record)
    encoded = _encoded(layers, reasons, record)
    rows = _rows(layers, reasons, encoded)
    _replace(module, layers, reasons, encoded)
    return rows


def _layers(module: nn.Module) -> Iterator[tuple[str, nn.Linear | nn.Embedding]]:
    # one that stands in several places is met in each, so that none is forgotten
    for name, layer in module.named_modules(remove_duplicate=False):
        if isinstance(layer, nn.Linear | nn.Embedding):
            yield name, layer


def _key(weight: torch.Tensor) -> _Key:
    return weight.data_ptr(), weight.shape, weight.stride()


def _check_patterns(patterns: tuple[str, ...], names: list[str]) -> None:
    for pattern in patterns:
        if not any(is_under(pattern, name) for name in names):
            raise EncodingError(
                f"no linear layer or embedding is selected by {pattern!r}:"
                f" {suggestion(pattern, names)}"
            )


def _reasons(
    module: nn.Module,
    layers: list[tuple[str, nn.Linear | nn.Embedding]],
    patterns: tuple[str, ...],
    encoding: Encoding,
) -> dict[str, str]:
    """Why each layer is left, "" for those that are not."""
    holders = {id(layer) for _, layer in layers}
    elsewhere = {
        _key(value): f"{path}.{name}".lstrip(".")
        for path, owner in module.named_modules()
        if id(owner) not in holders
        for name, value in owner.named_parameters(recurse=False)
        if value.dim() == 2
    }
    found = {}
    for name, layer in layers:
        if not any(is_under(pattern, name) for pattern in patterns):
            found[name] = "not selected"
        elif (key := _plain(layer)) in elsewhere:
            found[name] = f"its weight is also the parameter {elsewhere[key]}"
        else:
            found[name] = _unfit(layer, encoding)
    for name, layer in layers:
        tied = [n for n, other in layers if found[n] and _same(layer, other) and n != name]
        if not found[name] and tied:
            found[name] = f"tied to {tied[0]}, which is left ({found[tied[0]]})"
    return found


def _plain(layer: nn.Linear | nn.Embedding) -> _Key | None:
    return _key(layer.weight) if type(layer.weight) is nn.Parameter else None


def _same(one: nn.Module, other: nn.Module) -> bool:
    keys = [_plain(layer) for layer in (one, other)]  # type: ignore[arg-type]
    return keys[0] is not None and keys[0] == keys[1]


def _unfit(layer: nn.Linear | nn.Embedding, encoding: Encoding) -> str:
    """Why a layer can't be rewritten."""
    if type(layer) not in (nn.Linear, nn.Embedding):
        return f"it is a {type(layer).__name__}, which may compute something else"
    if type(layer.weight) is not nn.Parameter:
        return f"its weight is no plain parameter but a {type(layer.weight).__name__}"
    if layer.weight.dtype != torch.float32:
        return f"its weight is {layer.weight.dtype}, and qmatmul computes with float32"
    if layer._forward_hooks or layer._forward_pre_hooks or layer._backward_hooks:
        return "it has hooks, which a new module would not have"
    if isinstance(layer, nn.Embedding) and layer.max_norm is not None:
        return "it renormalizes its weight (max_norm)"
    try:
        row_bytes(encoding, layer.weight.shape)
    except EncodingError as error:
        return str(error)
    return ""


def _encoded(
    layers: list[tuple[str, nn.Linear | nn.Embedding]], reasons: dict[str, str], encoding: Encoding
) -> dict[_Key, QuantizedTensor]:
    """Each weight of the layers that are not left, once."""
    encoded: dict[_Key, QuantizedTensor] = {}
    for name, layer in layers:
        if reasons[name] or (key := _key(layer.weight)) in encoded:
            continue
        try:
            encoded[key] = quantize(layer.weight, encoding)
        except EncodingError as error:
            raise EncodingError(f"{name}: {error}") from error
    return encoded


def _rows(
    layers: list[tuple[str, nn.Linear | nn.Embedding]],
    reasons: dict[str, str],
    encoded: dict[_Key, QuantizedTensor],
) -> tuple[WeightRow, ...]:
    rows, first = [], dict[_Key, WeightRow]()
    for name, layer in layers:
        shape, size = tuple(layer.weight.shape), layer.weight.nbytes
        row = WeightRow(
            module=name, shape=shape, bytes_before=size, bytes_after=size, reason=reasons[name]
        )
        if not reasons[name]:
            key = _key(layer.weight)
            known, value = first.get(key), encoded[key]
            row = replace(
                row,
                encoding=value.encoding,
                bytes_after=value.nbytes,
                sqnr=sqnr(layer.weight, value.dequantize()) if known is None else known.sqnr,
                tied="" if known is None else known.module,
            )
            first.setdefault(key, row)
        rows.append(row)
    return tuple(rows)


def _replace(
    module: nn.Module,
    layers: list[tuple[str, nn.Linear | nn.Embedding]],
    reasons: dict[str, str],
    encoded: dict[_Key, QuantizedTensor],
) -> None:
    buffers: dict[_Key, torch.Tensor] = {}
    made: dict[int, nn.Module] = {}
    for name, layer in layers:
        if reasons[name]:
            continue
        if id(layer) not in made:
            key = _key(layer.weight)
            new: QuantizedLinear | QuantizedEmbedding
            if isinstance(layer, nn.Linear):
                new = QuantizedLinear(encoded[key], layer.bias)
            else:
                new = QuantizedEmbedding(encoded[key])
            new.encoded = buffers.setdefault(key, new.encoded)
            made[id(layer)] = new.train(layer.training)
        parent, _, last = name.rpartition(".")
        setattr(module.get_submodule(parent), last, made[id(layer)])
