"""Rewriting a model: torchao quantizes, and what it can't express well gets modules of ours."""

from __future__ import annotations

import copy
from typing import TYPE_CHECKING

import torch
from torch import nn
from torchao.quantization import (
    Int8DynamicActivationIntxWeightConfig,
    IntxUnpackedToInt8Tensor,
    PerAxis,
    PerGroup,
    quantize_,
)

from cede.quant.noise import sqnr
from cede.quant.source.layers import Layer, layers
from cede.quant.source.modules import PackedEmbedding, PaddedLinear, WeightOnlyLinear
from cede.quant.source.rows import QuantizationReport, QuantizedRow
from cede.quant.source.scheme import Embedding, Scheme

if TYPE_CHECKING:
    from torch import Tensor

    from cede.config import QuantizeConfig

Held = tuple[float | None, int]
"""SQNR of a quantized weight in dB, and bytes of its data and scales."""


def quantize_model(
    model: nn.Module, config: QuantizeConfig
) -> tuple[nn.Module, QuantizationReport]:
    """A model whose linear and embedding modules compute in other numbers.

    The given model stays as it is; what is not quantized shares its weights with it.

    Args:
        model: in float32 as far as it is quantized.
        config: modes, groups and rules.

    Raises:
        ConfigError: a mode that can't be had here, or groups that don't divide; before any work.
    """
    todo = layers(model, config)
    made = _same_weights(model)
    modules = dict(made.named_modules())
    tied = _tied(todo)
    shared: dict[tuple[int, str, int], tuple[nn.Module, Held]] = {}
    rows = []
    with torch.no_grad():
        for layer in todo:
            if layer.scheme is None:
                rows.append(_row(layer, None, tied))
                continue
            key = (id(layer.module.weight), repr(layer.scheme), layer.padding)
            own = modules[layer.path]
            if key in shared:
                first, held = shared[key]
                done = _with_weight_of(first, own)
            else:
                done = _rewritten(own, layer)
                held = _measured(own.get_parameter("weight").detach(), done)
                shared[key] = done, held
            made = _put(made, layer.path, done)
            rows.append(_row(layer, held, tied))
    return made, QuantizationReport(rows=tuple(rows))


def _same_weights(model: nn.Module) -> nn.Module:
    """A copy of the modules with the same tensors in them."""
    tensors = [*model.parameters(), *model.buffers()]
    return copy.deepcopy(model, {id(tensor): tensor for tensor in tensors})


def _put(model: nn.Module, path: str, module: nn.Module) -> nn.Module:
    if not path:
        return module
    parent, _, name = path.rpartition(".")
    setattr(model.get_submodule(parent), name, module)
    return model


def _rewritten(module: nn.Module, layer: Layer) -> nn.Module:
    weight = module.get_parameter("weight").detach().to(torch.float32)
    scheme = layer.scheme
    if isinstance(scheme, Embedding):
        found = _quantized(weight, scheme.bits, scheme.group)
        return PackedEmbedding(found.qdata, found.scale, scheme.bits)
    assert scheme is not None  # noqa: S101  (asked before)
    bias = _bias(module)
    if layer.padding:
        weight = nn.functional.pad(weight, (0, layer.padding))
    if scheme.dynamic:
        inner: nn.Module = _dynamic(weight, bias, scheme)
    else:
        found = _quantized(weight, scheme.bits, scheme.group)
        inner = WeightOnlyLinear(found.qdata, found.scale, scheme.bits, bias)
    return PaddedLinear(inner, layer.padding) if layer.padding else inner


def _with_weight_of(done: nn.Module, module: nn.Module) -> nn.Module:
    """For a module that had the same weight: the same quantized one, with its own bias."""
    made = _same_weights(done)
    inner = made.inner if isinstance(made, PaddedLinear) else made
    if isinstance(module, nn.Linear):
        inner.register_parameter("bias", _bias(module))
    return made


def _bias(module: nn.Module) -> nn.Parameter | None:
    bias = module.bias
    return bias if isinstance(bias, nn.Parameter) else None


def _quantized(weight: Tensor, bits: int, group: int) -> IntxUnpackedToInt8Tensor:
    """By torchao, symmetric: int8 data [out, in] and scales [out, in/group]."""
    block = (1, group or weight.shape[1])
    dtype = getattr(torch, f"int{bits}")
    return IntxUnpackedToInt8Tensor.from_hp(weight.contiguous(), block, dtype)


def _dynamic(weight: Tensor, bias: nn.Parameter | None, scheme: Scheme) -> nn.Linear:
    linear = nn.Linear(weight.shape[1], weight.shape[0], bias=bias is not None, device="meta")
    linear.weight = nn.Parameter(weight)
    linear.register_parameter("bias", bias)
    granularity = PerGroup(scheme.group) if scheme.group else PerAxis(0)
    given = {"intx_packing_format": "opaque_torchao_auto"} if scheme.kernels else {}
    quantize_(
        linear,
        Int8DynamicActivationIntxWeightConfig(
            weight_dtype=getattr(torch, f"int{scheme.bits}"),
            weight_granularity=granularity,
            **given,
        ),
    )
    return linear


def _tied(todo: list[Layer]) -> dict[int, list[Layer]]:
    """Layers by the weight that they share with others."""
    found: dict[int, list[Layer]] = {}
    for layer in todo:
        found.setdefault(id(layer.module.weight), []).append(layer)
    return {key: several for key, several in found.items() if len(several) > 1}


def _row(layer: Layer, held: Held | None, tied: dict[int, list[Layer]]) -> QuantizedRow:
    weight = layer.module.get_parameter("weight").detach()
    before = weight.numel() * weight.element_size()
    notes = [layer.note] if layer.note else []
    others = [one for one in tied.get(id(layer.module.weight), ()) if one.path != layer.path]
    for other in others:
        same = (other.scheme, other.padding) == (layer.scheme, layer.padding)
        verb = "tied with" if same else "untied from"
        notes.append(f"{verb} {other.path}" + ("" if same else ", stored twice"))
    noise, after = held or (None, before)
    return QuantizedRow(
        module=layer.path,
        kind=type(layer.module).__name__,
        shape=tuple(weight.shape),
        scheme=layer.scheme.name if layer.scheme else "",
        group=layer.scheme.group if layer.scheme else 0,
        bytes_before=before,
        bytes_after=after,
        sqnr=noise,
        note="; ".join(notes),
    )


def _measured(weight: Tensor, done: nn.Module) -> Held:
    inner = done.inner if isinstance(done, PaddedLinear) else done
    if isinstance(inner, PackedEmbedding):
        with torch.no_grad():
            back = inner(torch.arange(inner.num_embeddings))
        return sqnr(weight, back), _nbytes(inner.get_buffer("data"), inner.get_buffer("scale"))
    if isinstance(inner, WeightOnlyLinear):
        parts = [inner.part(i) for i in range(inner.groups)]
        held = sum(
            _nbytes(getattr(inner, f"data{i}"), getattr(inner, f"scale{i}"))
            - (getattr(inner, f"data{i}").numel() // 2 if inner.bits == 4 else 0)
            for i in range(inner.groups)
        )
        return sqnr(weight, torch.cat(parts, 1)[:, : weight.shape[1]]), held
    data = inner.get_parameter("weight")
    if not isinstance(data, IntxUnpackedToInt8Tensor):
        return None, data.numel()
    bits = 4 if str(data.target_dtype) == "torch.int4" else 8
    held = data.qdata.numel() * bits // 8 + _nbytes(data.scale)
    return sqnr(weight, data.dequantize()[:, : weight.shape[1]]), held


def _nbytes(*tensors: Tensor) -> int:
    return sum(tensor.numel() * tensor.element_size() for tensor in tensors)
