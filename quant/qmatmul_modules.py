"""Modules that hold an encoded weight: in place of `nn.Linear` and `nn.Embedding`."""

from __future__ import annotations

import torch
from torch import nn

from cede.errors import EncodingError
from cede.quant.encodings import QuantizedTensor
from cede.quant.qmatmul import qembedding, qmatmul


class _Encoded(nn.Module):
    """A module with the bytes of a weight as the buffer `encoded`, and the name of the encoding."""

    encoded: torch.Tensor

    def __init__(self, weight: QuantizedTensor) -> None:
        if len(weight.shape) != 2:
            raise EncodingError(f"{weight} has {len(weight.shape)} dimensions instead of 2")
        super().__init__()
        self.encoding = weight.encoding
        self.rows, self.columns = weight.shape
        self.register_buffer("encoded", weight.data)

    @property
    def quantized(self) -> QuantizedTensor:
        """The weight as a value."""
        return QuantizedTensor(self.encoded, self.encoding, (self.rows, self.columns))


class QuantizedLinear(_Encoded):
    """A linear layer with an encoded weight.

    Args:
        weight: of shape (out features, in features).
        bias: float32 (out features,), kept as it is.
    """

    bias: nn.Parameter | None

    def __init__(self, weight: QuantizedTensor, bias: nn.Parameter | None = None) -> None:
        super().__init__(weight)
        self.register_parameter("bias", bias)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Float32 (..., in features) to float32 (..., out features)."""
        y: torch.Tensor = qmatmul(x, self.encoded, self.encoding, self.bias)
        return y

    def extra_repr(self) -> str:
        """What `print` shows."""
        return f"{self.columns}, {self.rows}, bias={self.bias is not None}, {self.encoding}"


class QuantizedEmbedding(_Encoded):
    """An embedding with an encoded weight, of shape (entries, dimension)."""

    def forward(self, indices: torch.Tensor) -> torch.Tensor:
        """Integers of any shape to float32 (..., dimension)."""
        rows: torch.Tensor = qembedding(indices, self.encoded, self.encoding)
        return rows

    def extra_repr(self) -> str:
        """What `print` shows."""
        return f"{self.rows}, {self.columns}, {self.encoding}"
