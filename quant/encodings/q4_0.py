"""q4_0: 32 weights, one scale, x = d * (q - 8)."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from cede.quant.encodings.bits import half, inverse, scales

if TYPE_CHECKING:
    from numpy.typing import NDArray


def encode(values: NDArray[np.float32]) -> NDArray[np.uint8]:
    """Float32 (blocks, 32) to uint8 (blocks, 18).

    The value of largest magnitude becomes -8, whatever its sign, so that no step is lost.
    """
    at = np.abs(values).argmax(-1)
    extreme = np.take_along_axis(values, at[:, None], -1)
    d = extreme / np.float32(-8)
    q = values * inverse(d)
    q += np.float32(8.5)
    steps = np.minimum(q.astype(np.uint8), 15)
    data = np.empty((len(values), 18), np.uint8)
    data[:, :2] = half(d).view(np.uint8)
    data[:, 2:] = steps[:, :16] | steps[:, 16:] << 4
    return data


def decode(data: NDArray[np.uint8]) -> NDArray[np.float32]:
    """The low nibbles are the first 16 weights, the high ones the last."""
    values = np.empty((len(data), 32), np.float32)
    values[:, :16] = data[:, 2:] & 15
    values[:, 16:] = data[:, 2:] >> 4
    values -= np.float32(8)
    values *= scales(data, 0)
    return values
