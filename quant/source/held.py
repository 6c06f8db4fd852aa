"""What a quantized module holds: its bytes, and the weight that it stands for."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch
from torchao.quantization import IntxUnpackedToInt8Tensor

from cede.quant.source.modules import PackedEmbedding, PaddedLinear, WeightOnlyLinear

if TYPE_CHECKING:
    from torch import Tensor, nn


def held_bytes(module: nn.Module) -> int:
    """Bytes of a quantized module's data and scales as a program stores them.

    int4 lie in pairs; their scales are bfloat16 where activations are quantized too.
    """
    inner = module.inner if isinstance(module, PaddedLinear) else module
    if isinstance(inner, PackedEmbedding):
        return _nbytes(inner.get_buffer("data"), inner.get_buffer("scale"))
    if isinstance(inner, WeightOnlyLinear):
        data = [inner.get_buffer(f"data{i}") for i in range(inner.groups)]
        scales = [inner.get_buffer(f"scale{i}") for i in range(inner.groups)]
        return _nbytes(*data) * inner.bits // 8 + _nbytes(*scales)
    if "weight" not in inner._parameters:  # torchao's embedding
        return _nbytes(*inner.buffers())
    weight = inner.get_parameter("weight")
    if not isinstance(weight, IntxUnpackedToInt8Tensor):
        return weight.numel()
    bits = 4 if str(weight.target_dtype) == "torch.int4" else 8
    values = int(weight.qdata.numel()) * bits // 8
    return values + _nbytes(weight.scale) // (2 if bits == 4 else 1)


def weight_of(module: nn.Module, columns: int) -> Tensor | None:
    """The weight that a quantized module computes with, float32 [out, columns].

    None where torchao packed it for its own kernels.
    """
    inner = module.inner if isinstance(module, PaddedLinear) else module
    if isinstance(inner, PackedEmbedding):
        with torch.no_grad():
            found: Tensor = inner(torch.arange(inner.num_embeddings))
        return found
    if isinstance(inner, WeightOnlyLinear):
        return torch.cat([inner.part(i) for i in range(inner.groups)], 1)[:, :columns]
    if "weight" not in inner._parameters:
        return None
    weight = inner.get_parameter("weight")
    if not isinstance(weight, IntxUnpackedToInt8Tensor):
        return None
    back: Tensor = weight.dequantize()[:, :columns]
    return back


def _nbytes(*tensors: Tensor) -> int:
    return sum(tensor.numel() * tensor.element_size() for tensor in tensors)
