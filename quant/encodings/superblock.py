"""What q4_k and q5_k share: 8 sub-blocks of 32, each with a scale and a minimum of 6 bits.

x = d * scale * q - dmin * minimum, with the halves d and dmin of the whole block.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from cede.quant.encodings.bits import half, ratio, scales, within
from cede.quant.encodings.search import with_minimum

if TYPE_CHECKING:
    from numpy.typing import NDArray


def encode(
    values: NDArray[np.float32], top: int, first: float, steps: int
) -> tuple[NDArray[np.uint8], NDArray[np.uint8]]:
    """Choose scales and quantize.

    Args:
        values: float32 (blocks, 256).
        top, first, steps: see `with_minimum`.

    Returns:
        The first 16 bytes of each block, and the quantized values as uint8 (blocks, 8, 32).
    """
    within(values, 1e9)  # the largest minimum is 63 * 65504, the largest value 16 times that
    blocks = len(values)
    x = np.ascontiguousarray(values.reshape(-1, 32).T)
    magnitude = np.sqrt((x * x).sum(0) / np.float32(32))
    q, scale, minimum = with_minimum(x, magnitude + np.abs(x), top, first, steps)
    d, whole_scales = _six_bits(scale.reshape(blocks, 8), "scale")
    dmin, whole_minima = _six_bits(minimum.reshape(blocks, 8), "minimum")
    step = (d.astype(np.float32) * whole_scales).reshape(-1)
    offset = (dmin.astype(np.float32) * whole_minima).reshape(-1)
    usable = step != 0
    x += offset
    x /= np.where(usable, step, np.float32(1))
    np.rint(x, out=x)
    np.clip(x, 0, top, out=x)
    np.copyto(q, x, where=usable)
    head = np.empty((blocks, 16), np.uint8)
    head[:, :2], head[:, 2:4] = d.view(np.uint8), dmin.view(np.uint8)
    head[:, 4:] = _pack(whole_scales.astype(np.uint8), whole_minima.astype(np.uint8))
    return head, q.T.astype(np.uint8).reshape(blocks, 8, 32)


def _six_bits(
    values: NDArray[np.float32], what: str
) -> tuple[NDArray[np.float16], NDArray[np.float32]]:
    """The half that belongs to a block, and each value in steps of it, 0..63."""
    largest = np.maximum(values.max(-1, keepdims=True, initial=0), 0)
    steps = ratio(63, largest)
    whole = np.clip(np.rint(steps * values), 0, 63)
    return half(largest / np.float32(63), what), whole


def _pack(scale: NDArray[np.uint8], minimum: NDArray[np.uint8]) -> NDArray[np.uint8]:
    """8 scales and 8 minima of 6 bits in 12 bytes: the last four of each give up their top bits."""
    packed = np.empty((len(scale), 12), np.uint8)
    packed[:, :4] = scale[:, :4] | scale[:, 4:] >> 4 << 6
    packed[:, 4:8] = minimum[:, :4] | minimum[:, 4:] >> 4 << 6
    packed[:, 8:] = scale[:, 4:] & 15 | minimum[:, 4:] << 4
    return packed


def factors(data: NDArray[np.uint8]) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
    """Step and offset of each sub-block, float32 (blocks, 8)."""
    packed = data[:, 4:16]
    scale = np.empty((len(data), 8), np.uint8)
    minimum = np.empty_like(scale)
    scale[:, :4], minimum[:, :4] = packed[:, :4] & 63, packed[:, 4:8] & 63
    scale[:, 4:] = packed[:, 8:] & 15 | packed[:, :4] >> 6 << 4
    minimum[:, 4:] = packed[:, 8:] >> 4 | packed[:, 4:8] >> 6 << 4
    return scales(data, 0) * scale, scales(data, 2) * minimum
