"""An `Encoding` made of a layout and two functions."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from cede.types import block_bytes

if TYPE_CHECKING:
    from collections.abc import Callable

    import numpy as np
    from numpy.typing import NDArray

    from cede.types import Field


@dataclass(frozen=True, slots=True, kw_only=True)
class BlockEncoding:
    """An encoding, as its plugin describes it. The functions import what is heavy when called.

    Attributes:
        name: lower-case name, unique among encodings.
        block_size: weights in a block.
        layout: what a block's bytes are, in order.
        encode: float32 (blocks, block_size) to uint8 (blocks, bytes of a block).
        decode: the way back.
    """

    name: str
    block_size: int
    layout: tuple[Field, ...]
    encode: Callable[[NDArray[np.float32]], NDArray[np.uint8]]
    decode: Callable[[NDArray[np.uint8]], NDArray[np.float32]]

    @property
    def bits_per_weight(self) -> float:
        """Bits that a weight takes, with its share of the scales."""
        return 8 * block_bytes(self) / self.block_size

    def quantize(self, values: NDArray[np.float32]) -> NDArray[np.uint8]:
        """Encode blocks of finite float32. Raises ValueError for values it can't express."""
        return self.encode(values)

    def dequantize(self, data: NDArray[np.uint8]) -> NDArray[np.float32]:
        """Decode blocks to float32."""
        return self.decode(data)
