"""q8_0: 32 weights, one scale, x = d * q."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from cede.quant.encodings.bits import half, inverse, scales

if TYPE_CHECKING:
    from numpy.typing import NDArray


def encode(values: NDArray[np.float32]) -> NDArray[np.uint8]:
    """Float32 (blocks, 32) to uint8 (blocks, 34); halves are rounded away from zero."""
    d = np.abs(values).max(-1, keepdims=True) / np.float32(127)
    stored = half(d)
    q = values * inverse(d)
    whole = np.trunc(q)
    # the distance to the whole number below is exact, that of adding one half first is not
    whole += np.copysign(np.float32(1), q) * (np.abs(q - whole) >= np.float32(0.5))
    data = np.empty((len(values), 34), np.uint8)
    data[:, :2] = stored.view(np.uint8)
    data[:, 2:] = whole.astype(np.int8).view(np.uint8)
    return data


def decode(data: NDArray[np.uint8]) -> NDArray[np.float32]:
    """Each weight is a signed byte."""
    values = data[:, 2:].view(np.int8).astype(np.float32)
    values *= scales(data, 0)
    return values
