"""bfloat16: the upper half of a float32, rounded to the nearest, ties to even."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray


def encode(values: NDArray[np.float32]) -> NDArray[np.uint8]:
    """Float32 (blocks, 1) to uint8 (blocks, 2)."""
    bits = np.ascontiguousarray(values, "<f4").view("<u4")
    rounded = (bits + (0x7FFF + ((bits >> 16) & 1))) >> 16
    data: NDArray[np.uint16] = rounded.astype("<u2")
    if ((data & 0x7FFF) == 0x7F80).any():
        raise ValueError("the largest values round to infinity in bfloat16")
    return data.view(np.uint8)


def decode(data: NDArray[np.uint8]) -> NDArray[np.float32]:
    """The way back, exactly."""
    upper = np.ascontiguousarray(data).view("<u2")
    return (upper.astype("<u4") << 16).view(np.float32)
