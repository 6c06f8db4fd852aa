"""How a weight is stored in blocks of bytes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol, runtime_checkable

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray


@dataclass(frozen=True, slots=True, kw_only=True)
class Field:
    """A run of equal values in a block's bytes.

    Attributes:
        name: what they are ("d" for a scale, "qs" for the quantized weights).
        dtype: how each is stored, little-endian: "uint8", "int8", "uint16", "float16", "float32".
        count: how many there are.
    """

    name: str
    dtype: str
    count: int = 1

    @property
    def nbytes(self) -> int:
        """Bytes of all of them."""
        return SIZES[self.dtype] * self.count


SIZES = {"uint8": 1, "int8": 1, "uint16": 2, "float16": 2, "uint32": 4, "float32": 4}
"""The dtypes of fields, and the bytes of each."""


@runtime_checkable
class Encoding(Protocol):
    """A weight encoding: blocks of weights along a row become blocks of bytes. Holds no state.

    A row is a run of whole blocks; whoever calls splits a tensor's last dimension into them and
    checks that the values are finite. Both functions take any number of blocks at once, also none.
    """

    @property
    def name(self) -> str:
        """Lower-case name, unique among encodings."""

    @property
    def block_size(self) -> int:
        """Weights in a block."""

    @property
    def bits_per_weight(self) -> float:
        """Bits that a weight takes, with its share of the scales; a block has whole bytes."""

    @property
    def layout(self) -> tuple[Field, ...]:
        """What a block's bytes are, in order, without gaps."""

    def quantize(self, values: NDArray[np.float32]) -> NDArray[np.uint8]:
        """Encode float32 (blocks, block_size), finite, to uint8 (blocks, bytes of a block).

        Raises:
            ValueError: values that it can't express, such as ones too large for its scale.
        """

    def dequantize(self, data: NDArray[np.uint8]) -> NDArray[np.float32]:
        """Decode uint8 (blocks, bytes of a block) to float32 (blocks, block_size)."""


def block_bytes(encoding: Encoding) -> int:
    """Bytes of a block."""
    return sum(field.nbytes for field in encoding.layout)
