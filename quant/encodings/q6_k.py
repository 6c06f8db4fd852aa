"""q6_k: 256 weights in 16 sub-blocks, x = d * scale * (q - 32), q of 6 bits, no minimum."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from cede.quant.encodings.bits import half, inverse, ratio, scales, within
from cede.quant.encodings.search import EPSILON, symmetric

if TYPE_CHECKING:
    from numpy.typing import NDArray


def encode(values: NDArray[np.float32]) -> NDArray[np.uint8]:
    """Float32 (blocks, 256) to uint8 (blocks, 210)."""
    within(values, 1e9)  # the largest value is 32 * 128 * 65504
    blocks = len(values)
    x = np.ascontiguousarray(values.reshape(-1, 16).T)
    q, scale = symmetric(x, 32)
    scale = scale.reshape(blocks, 16)
    extreme = np.take_along_axis(scale, np.abs(scale).argmax(-1)[:, None], -1)
    zero = np.abs(extreme[:, 0]) < EPSILON
    steps = ratio(-128, extreme)
    d = half(inverse(steps))
    whole = np.clip(np.rint(steps * scale), -128, 127)
    step = (d.astype(np.float32) * whole).reshape(-1)
    usable = step != 0
    x /= np.where(usable, step, np.float32(1))
    np.rint(x, out=x)
    np.clip(x, -32, 31, out=x)
    x += 32
    np.copyto(q, x, where=usable)
    data = np.empty((blocks, 210), np.uint8)
    data[:, :192] = _pack(q.T.astype(np.uint8).reshape(blocks, 2, 4, 32))
    data[:, 192:208] = whole.astype(np.int8).view(np.uint8)
    data[:, 208:] = d.view(np.uint8)
    data[zero] = 0
    return data


def _pack(q: NDArray[np.uint8]) -> NDArray[np.uint8]:
    """The lower 4 bits of every value, then the upper 2; q is (blocks, halves, quarters, 32)."""
    packed = np.empty((len(q), 192), np.uint8)
    low = q & 15
    packed[:, :128] = (low[:, :, :2] | low[:, :, 2:] << 4).reshape(-1, 128)
    top = q >> 4
    packed[:, 128:] = (
        top[:, :, 0] | top[:, :, 1] << 2 | top[:, :, 2] << 4 | top[:, :, 3] << 6
    ).reshape(-1, 64)
    return packed


def decode(data: NDArray[np.uint8]) -> NDArray[np.float32]:
    """Each half of the block is four quarters of 32, whose bits lie beside each other."""
    blocks = len(data)
    low, top = data[:, :128].reshape(-1, 2, 2, 32), data[:, 128:192].reshape(-1, 2, 32)
    q = np.empty((blocks, 2, 4, 32), np.uint8)
    q[:, :, :2] = low & 15
    q[:, :, 2:] = low >> 4
    for quarter in range(4):
        q[:, :, quarter] |= (top >> (2 * quarter) & 3) << 4
    step = scales(data, 208) * data[:, 192:208].view(np.int8)
    values = q.astype(np.float32).reshape(-1, 16, 16)
    values -= np.float32(32)
    values *= step[:, :, None]
    return values.reshape(-1, 256)
