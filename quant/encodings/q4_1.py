"""q4_1: 32 weights, a scale and a minimum, x = d * q + m."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from cede.quant.encodings.bits import half, inverse, scales

if TYPE_CHECKING:
    from numpy.typing import NDArray


def encode(values: NDArray[np.float32]) -> NDArray[np.uint8]:
    """Float32 (blocks, 32) to uint8 (blocks, 20)."""
    low = values.min(-1, keepdims=True)
    with np.errstate(over="ignore"):  # `half` says so
        d = (values.max(-1, keepdims=True) - low) / np.float32(15)
    stored, least = half(d), half(low, "minimum")
    q = (values - low) * inverse(d)
    q += np.float32(0.5)
    steps = np.minimum(q.astype(np.uint8), 15)
    data = np.empty((len(values), 20), np.uint8)
    data[:, :2] = stored.view(np.uint8)
    data[:, 2:4] = least.view(np.uint8)
    data[:, 4:] = steps[:, :16] | steps[:, 16:] << 4
    return data


def decode(data: NDArray[np.uint8]) -> NDArray[np.float32]:
    """The low nibbles are the first 16 weights, the high ones the last."""
    values = np.empty((len(data), 32), np.float32)
    values[:, :16] = data[:, 4:] & 15
    values[:, 16:] = data[:, 4:] >> 4
    values *= scales(data, 0)
    values += scales(data, 2)
    return values
