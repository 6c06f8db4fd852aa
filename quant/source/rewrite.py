"""One module in other numbers: torchao rounds, and what it can't express well is ours."""

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

from cede.quant.source import kernels
from cede.quant.source.fitted import fitted
from cede.quant.source.modules import PackedEmbedding, PaddedLinear, WeightOnlyLinear
from cede.quant.source.scheme import Embedding, Scheme

if TYPE_CHECKING:
    from collections.abc import Iterable

    from torch import Tensor

    from cede.quant.source.layers import Layer


def rewritten(module: nn.Module, layer: Layer) -> nn.Module:
    """A new module that computes as `layer` says; the given one, linear or embedding, stays."""
    weight = module.get_parameter("weight").detach().to(torch.float32)
    scheme = layer.scheme
    if isinstance(scheme, Embedding):
        if scheme.kernels:
            return kernels.table(weight, scheme)
        found = _quantized(weight, scheme.bits, scheme.group)
        return PackedEmbedding(found.qdata, found.scale, scheme.bits)
    assert scheme is not None  # noqa: S101  (asked before)
    bias = _bias(module)
    if layer.padding:
        weight = nn.functional.pad(weight, (0, layer.padding))
    own = _fitted(weight, scheme, layer) if scheme.fitted else None
    if scheme.dynamic:
        inner: nn.Module = _dynamic(weight, bias, scheme, own)
    else:
        if own is None:
            found = _quantized(weight, scheme.bits, scheme.group)
            own = found.qdata, found.scale
        inner = WeightOnlyLinear(*own, scheme.bits, bias)
    return PaddedLinear(inner, layer.padding) if layer.padding else inner


def of_integers(
    module: nn.Module, scheme: Scheme | Embedding, data: Tensor, scale: Tensor
) -> nn.Module:
    """A new module of integers that are known, with the bias of the given one.

    Args:
        module: linear or embedding; its weight may be on the meta device.
        scheme: of the integers.
        data: int8 [out, in].
        scale: float32 [out, groups]; rounded to bfloat16 for 4 bits with int8 activations, as
            ExecuTorch stores them.
    """
    if isinstance(scheme, Embedding):
        return PackedEmbedding(data, scale, scheme.bits)
    bias = _bias(module)
    if not scheme.dynamic:
        return WeightOnlyLinear(data, scale, scheme.bits, bias)
    if scheme.bits == 4:
        scale = scale.to(torch.bfloat16).to(torch.float32)
    weight = data * scale.repeat_interleave(data.shape[1] // scale.shape[1], 1)
    return _dynamic(weight, bias, scheme, (data, scale))


def with_weight_of(done: nn.Module, module: nn.Module) -> nn.Module:
    """For a module that had the same weight: the same quantized one, with its own bias."""
    made = copied(done, (*done.parameters(), *done.buffers()))
    inner = made.inner if isinstance(made, PaddedLinear) else made
    if isinstance(module, nn.Linear):
        inner.register_parameter("bias", _bias(module))
    return made


def copied(model: nn.Module, shared: Iterable[Tensor]) -> nn.Module:
    """A copy of the modules with these tensors in it as they are."""
    return copy.deepcopy(model, {id(tensor): tensor for tensor in shared})


def places(model: nn.Module) -> dict[int, list[tuple[nn.Module, str]]]:
    """For each module, by id, every parent that holds it, with the name there."""
    found: dict[int, list[tuple[nn.Module, str]]] = {}
    for parent in model.modules():
        for name, child in parent._modules.items():
            found.setdefault(id(child), []).append((parent, name))
    return found


def _bias(module: nn.Module) -> nn.Parameter | None:
    bias = module.bias
    return bias if isinstance(bias, nn.Parameter) else None


def _quantized(weight: Tensor, bits: int, group: int) -> IntxUnpackedToInt8Tensor:
    """By torchao, symmetric: int8 data [out, in] and scales [out, in/group]."""
    block = (1, group or weight.shape[1])
    dtype = getattr(torch, f"int{bits}")
    return IntxUnpackedToInt8Tensor.from_hp(weight.contiguous(), block, dtype)


def _fitted(weight: Tensor, scheme: Scheme, layer: Layer) -> tuple[Tensor, Tensor]:
    """Integers and scales by search, in the dtype that the scheme's scales are stored in."""
    importance = layer.importance
    if importance is not None and layer.padding:
        importance = nn.functional.pad(importance, (0, layer.padding))
    dtype = torch.bfloat16 if scheme.dynamic else torch.float32
    return fitted(weight, scheme.group, scheme.bits, dtype, importance)


def _dynamic(
    weight: Tensor,
    bias: nn.Parameter | None,
    scheme: Scheme,
    own: tuple[Tensor, Tensor] | None,
) -> nn.Linear:
    """A linear module of torchao's; `own` are integers and scales in place of its own."""
    linear = nn.Linear(weight.shape[1], weight.shape[0], bias=bias is not None, device="meta")
    linear.weight = nn.Parameter(weight)
    linear.register_parameter("bias", bias)
    granularity = PerGroup(scheme.group) if scheme.group else PerAxis(0)
    given: dict[str, object] = {}
    if scheme.kernels:
        given["intx_packing_format"] = "opaque_torchao_auto"
    elif scheme.bits == 4:  # ExecuTorch stores their scales so: it would round others
        given["weight_scale_dtype"] = torch.bfloat16
    quantize_(
        linear,
        Int8DynamicActivationIntxWeightConfig(
            weight_dtype=getattr(torch, f"int{scheme.bits}"),
            weight_granularity=granularity,
            **given,
        ),
    )
    if isinstance(linear.weight, IntxUnpackedToInt8Tensor):
        linear.weight.scale = linear.weight.scale.to(torch.float32)  # the same values
        if own is not None:
            linear.weight.qdata, linear.weight.scale = own
    return linear
