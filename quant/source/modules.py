"""Modules that hold quantized weights, in terms of ExecuTorch's own quantized operators."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch
import torch.ao.quantization.fx._decomposed  # registers dequantize_per_channel
from torch import nn

from cede.lowering.inside_executorch.imports import import_executorch

import_executorch()  # before anything else here imports it

import executorch.exir.passes._quant_patterns_and_replacements  # noqa: E402,F401  embedding_*

if TYPE_CHECKING:
    from collections.abc import Callable

    from torch import Tensor


class WeightOnlyLinear(nn.Module):
    """A linear module of float activations with an int8 or int4 weight.

    A weight in groups is one product a group: backends that multiply with one scale a row can then
    take all of them.

    Args:
        data: int8 [out, in].
        scale: float32 [out, groups].
        bits: of the data, which lie in -2**(bits-1) .. 2**(bits-1)-1.
        bias: float32 [out], or None.
    """

    def __init__(self, data: Tensor, scale: Tensor, bits: int, bias: Tensor | None) -> None:
        super().__init__()
        self.out_features, self.in_features = data.shape
        self.bits, self.groups = bits, scale.shape[1]
        width = data.shape[1] // self.groups
        for i in range(self.groups):
            part = data[:, i * width : (i + 1) * width]
            self.register_buffer(f"data{i}", part.contiguous())
            self.register_buffer(f"scale{i}", scale[:, i].contiguous().to(torch.float32))
        zeros = torch.zeros(data.shape[0], dtype=torch.int64)
        self.register_buffer("zeros", zeros, persistent=False)
        self.bias = bias

    def part(self, i: int) -> Tensor:
        """The weight of one group, float32 [out, in/groups]."""
        half = 2 ** (self.bits - 1)
        found: Tensor = torch.ops.quantized_decomposed.dequantize_per_channel.default(
            getattr(self, f"data{i}"), getattr(self, f"scale{i}"), self.zeros,
            0, -half, half - 1, torch.int8,
        )  # fmt: skip
        return found

    def forward(self, x: Tensor) -> Tensor:
        """x [..., in] to [..., out]."""
        width = self.in_features // self.groups
        y = nn.functional.linear(x if self.groups == 1 else x[..., :width], self.part(0))
        for i in range(1, self.groups):
            piece = x[..., i * width : (i + 1) * width]  # a split is no op of XNNPACK's
            y = y + nn.functional.linear(piece, self.part(i))
        # apart: XNNPACK's compiler takes a bias with a quantized weight for a quantized one
        return y if self.bias is None else y + self.bias

    def extra_repr(self) -> str:
        """Sizes, for print."""
        return f"{self.in_features}, {self.out_features}, bits={self.bits}, groups={self.groups}"


class PaddedLinear(nn.Module):
    """A linear module whose weight has more columns than the input, for zeros.

    Args:
        inner: of as many inputs as the weight has columns.
        more: how many zeros are appended to the input.
    """

    def __init__(self, inner: nn.Module, more: int) -> None:
        super().__init__()
        self.inner, self.more = inner, more

    def forward(self, x: Tensor) -> Tensor:
        """x [..., in] to [..., out]."""
        found: Tensor = self.inner(nn.functional.pad(x, (0, self.more)))
        return found


class PackedEmbedding(nn.Module):
    """An embedding that is stored in 2, 4 or 8 bits.

    Args:
        data: int8 [rows, columns], in -2**(bits-1) .. 2**(bits-1)-1.
        scale: float32 [rows, groups].
        bits: 2, 4 or 8. With 2 and 4 several values share a byte, the first in the highest bits
            for 4 and the lowest for 2 (`quantized_decomposed.embedding_4bit` and `_2bit`).
    """

    def __init__(self, data: Tensor, scale: Tensor, bits: int) -> None:
        super().__init__()
        self.num_embeddings, self.embedding_dim = data.shape
        self.bits = bits
        self.register_buffer("data", _PACK[bits](data))
        self.register_buffer("scale", _by_row(scale.to(torch.float32)))

    def forward(self, ids: Tensor) -> Tensor:
        """Ids [...] to float32 [..., columns]."""
        ops = torch.ops.quantized_decomposed
        call = {8: ops.embedding_byte, 4: ops.embedding_4bit, 2: ops.embedding_2bit}[self.bits]
        half = 2 ** (self.bits - 1)
        found: Tensor = call.dtype(
            self.data, self.scale, None, -half, half - 1, ids, dtype=torch.float32
        )
        return found

    def extra_repr(self) -> str:
        """Sizes, for print."""
        return f"{self.num_embeddings}, {self.embedding_dim}, bits={self.bits}"


def _by_row(scale: Tensor) -> Tensor:
    """[rows] where a row has one scale, else [rows, groups]."""
    return scale.squeeze(1).contiguous() if scale.shape[1] == 1 else scale.contiguous()


def _halves(data: Tensor) -> Tensor:
    high, low = data[:, ::2] + 8, data[:, 1::2] + 8
    return ((high << 4) | low).to(torch.uint8)


def _quarters(data: Tensor) -> Tensor:
    parts = [(data[:, i::4] + 2).to(torch.uint8) << (2 * i) for i in range(4)]
    return parts[0] | parts[1] | parts[2] | parts[3]


_PACK: dict[int, Callable[[Tensor], Tensor]] = {
    8: lambda data: data.to(torch.int8),
    4: _halves,
    2: _quarters,
}
