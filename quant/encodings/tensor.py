"""`QuantizedTensor`: an encoded weight as a value."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from cede.errors import EncodingError
from cede.quant.encodings.find import find

if TYPE_CHECKING:
    from collections.abc import Sequence

    import torch

    from cede.config import Config
    from cede.types import Encoding


class QuantizedTensor:
    """An encoded weight. A value: it never changes, and equal parts make it equal.

    Attributes:
        encoding: name of the encoding.
        shape: of the weight.
        dtype: of the weight before it was encoded, and of what `dequantize` gives.
    """

    __slots__ = ("_data", "dtype", "encoding", "shape")

    encoding: str
    shape: torch.Size
    dtype: torch.dtype
    _data: torch.Tensor

    def __init__(
        self,
        data: torch.Tensor,
        encoding: str | Encoding,
        shape: Sequence[int],
        dtype: torch.dtype | None = None,
    ) -> None:
        """Take a copy of encoded bytes.

        Args:
            data: uint8, the shape with the bytes of a row as last size.
            encoding: its name, or the record.
            shape: of the weight.
            dtype: a floating-point one; None is float32.

        Raises:
            ConfigError: nobody brings the encoding.
            EncodingError: bytes that don't fit encoding and shape, or another dtype.
            PluginError: a plugin that would bring the encoding failed.
        """
        import torch

        from cede.quant.encodings.rows import FLOATS, row_bytes

        record, sizes = find(encoding), torch.Size(shape)
        form = (*sizes[:-1], row_bytes(record, sizes))
        if data.dtype != torch.uint8 or tuple(data.shape) != form:
            raise EncodingError(
                f"a weight of shape {tuple(sizes)} as {record.name} is uint8 of shape {form}, not"
                f" {data.dtype} of shape {tuple(data.shape)}"
            )
        if (dtype := dtype or torch.float32) not in FLOATS:
            raise EncodingError(f"the dtype of an encoded weight is floating-point, not {dtype}")
        self._fill(data.detach().cpu().clone().contiguous(), record.name, sizes, dtype)

    def _fill(
        self, data: torch.Tensor, encoding: str, shape: torch.Size, dtype: torch.dtype
    ) -> None:
        for name, value in (
            ("_data", data), ("encoding", encoding), ("shape", shape), ("dtype", dtype),
        ):  # fmt: skip
            object.__setattr__(self, name, value)

    def __setattr__(self, name: str, value: object) -> None:
        raise AttributeError(f"a QuantizedTensor never changes: {name} can't be set")

    def __delattr__(self, name: str) -> None:
        raise AttributeError(f"a QuantizedTensor never changes: {name} can't be deleted")

    @property
    def data(self) -> torch.Tensor:
        """A copy of the bytes: uint8, the shape with the bytes of a row as last size."""
        return self._data.clone()

    @property
    def nbytes(self) -> int:
        """Bytes of the encoded weight."""
        return self._data.numel()

    def dequantize(self) -> torch.Tensor:
        """The weight as decoded, a new tensor of `shape` and `dtype`."""
        from cede.quant.encodings.rows import decode

        return decode(self._data, find(self.encoding), self.shape[-1]).to(self.dtype)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, QuantizedTensor):
            return NotImplemented
        mine, its = (self.encoding, self.shape, self.dtype), (other.encoding, other.shape)
        return mine == (*its, other.dtype) and self._data.equal(other._data)

    __hash__ = None  # type: ignore[assignment]

    def __copy__(self) -> QuantizedTensor:
        return self

    def __deepcopy__(self, memo: dict[int, Any]) -> QuantizedTensor:
        return self

    def __reduce__(self) -> tuple[Any, ...]:
        return QuantizedTensor, (self._data, self.encoding, self.shape, self.dtype)

    def __repr__(self) -> str:
        dtype = str(self.dtype).removeprefix("torch.")
        sizes = "x".join(map(str, self.shape))
        return f"QuantizedTensor({self.encoding}, {sizes} {dtype}, {self.nbytes} bytes)"


def quantize(
    tensor: torch.Tensor, encoding: str | Encoding, *, config: Config | None = None
) -> QuantizedTensor:
    """Encode a weight.

    Args:
        tensor: floating point, of any layout; rows, its last dimension, must be whole blocks.
        encoding: name of an encoding ("q4_k"), or a `cede.Encoding`.
        config: whose plugins may bring it; None asks those that are installed.

    Raises:
        ConfigError: nobody brings the encoding.
        EncodingError: another dtype, a shape that the block doesn't divide, NaN or infinity, or
            values that the encoding can't express.
        PluginError: a plugin that would bring the encoding failed.
    """
    from cede.quant.encodings.rows import encode

    record = find(encoding, config)
    result = QuantizedTensor.__new__(QuantizedTensor)
    result._fill(encode(tensor, record), record.name, tensor.shape, tensor.dtype)
    return result
