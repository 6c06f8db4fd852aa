"""q4_k: 256 weights in 8 sub-blocks, x = d * scale * q - dmin * minimum, q of 4 bits."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from cede.quant.encodings import superblock

if TYPE_CHECKING:
    from numpy.typing import NDArray


def encode(values: NDArray[np.float32]) -> NDArray[np.uint8]:
    """Float32 (blocks, 256) to uint8 (blocks, 144)."""
    head, q = superblock.encode(values, top=15, first=-1.0, steps=20)
    data = np.empty((len(values), 144), np.uint8)
    data[:, :16] = head
    data[:, 16:] = (q[:, 0::2] | q[:, 1::2] << 4).reshape(-1, 128)
    return data


def decode(data: NDArray[np.uint8]) -> NDArray[np.float32]:
    """Of each 32 bytes the low nibbles are one sub-block, the high ones the next."""
    step, offset = superblock.factors(data)
    nibbles = data[:, 16:].reshape(-1, 4, 32)
    values = np.empty((len(data), 8, 32), np.float32)
    values[:, 0::2] = nibbles & 15
    values[:, 1::2] = nibbles >> 4
    values *= step[:, :, None]
    values -= offset[:, :, None]
    return values.reshape(-1, 256)
