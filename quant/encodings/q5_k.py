"""q5_k: 256 weights in 8 sub-blocks, x = d * scale * q - dmin * minimum, q of 5 bits."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from cede.quant.encodings import superblock

if TYPE_CHECKING:
    from numpy.typing import NDArray

_BITS = np.arange(8, dtype=np.uint8)[:, None]


def encode(values: NDArray[np.float32]) -> NDArray[np.uint8]:
    """Float32 (blocks, 256) to uint8 (blocks, 176)."""
    head, q = superblock.encode(values, top=31, first=-0.5, steps=15)
    data = np.empty((len(values), 176), np.uint8)
    data[:, :16] = head
    data[:, 16:48] = np.bitwise_or.reduce(q >> 4 << _BITS, axis=1)
    low = q & 15
    data[:, 48:] = (low[:, 0::2] | low[:, 1::2] << 4).reshape(-1, 128)
    return data


def decode(data: NDArray[np.uint8]) -> NDArray[np.float32]:
    """Nibbles as in q4_k; bit j of the 32 bytes before them is the top bit in sub-block j."""
    step, offset = superblock.factors(data)
    nibbles = data[:, 48:].reshape(-1, 4, 32)
    q = (data[:, None, 16:48] >> _BITS & 1) << 4
    q[:, 0::2] |= nibbles & 15
    q[:, 1::2] |= nibbles >> 4
    values = q.astype(np.float32)
    values *= step[:, :, None]
    values -= offset[:, :, None]
    return values.reshape(-1, 256)
