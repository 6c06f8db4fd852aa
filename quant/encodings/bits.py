"""Half-precision scales and rounding, as all encodings of ggml have them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

LARGEST = 65504.0
"""The largest finite float16."""


def half(values: NDArray[np.float32], what: str = "scale") -> NDArray[np.float16]:
    """Round to float16. Raises ValueError where that gives infinity."""
    # 65520 is halfway to the next power of two, from where on float16 rounds to infinity
    if values.size and not float(np.abs(values).max()) < 65520.0:
        largest = float(np.abs(values).max())
        raise ValueError(f"a {what} of {largest:g} doesn't fit into float16 (at most {LARGEST:g})")
    result: NDArray[np.float16] = values.astype("<f2")
    return result


def within(values: NDArray[np.float32], limit: float) -> None:
    """Raise ValueError where values are so large that squares and sums of them run over."""
    if values.size and (largest := float(np.abs(values).max())) > limit:
        raise ValueError(f"values up to {largest:g} have no scale that fits into float16")


def ratio(number: float, values: NDArray[np.float32]) -> NDArray[np.float32]:
    """A number divided by each value, and 0 where that is not finite."""
    with np.errstate(divide="ignore", over="ignore"):
        result = np.float32(number) / values
    result[~np.isfinite(result)] = 0
    return result


def inverse(values: NDArray[np.float32]) -> NDArray[np.float32]:
    """1 / x, and 0 where that is not finite."""
    return ratio(1, values)


def field(data: NDArray[np.uint8], start: int, count: int, dtype: str) -> NDArray[Any]:
    """Values of a dtype that stand in every block, from that byte on."""
    size = np.dtype(dtype).itemsize
    return np.ascontiguousarray(data[:, start : start + size * count]).view(dtype)


def scales(data: NDArray[np.uint8], start: int) -> NDArray[np.float32]:
    """The float16 at that byte of every block, as float32 (blocks, 1)."""
    return field(data, start, 1, "<f2").astype(np.float32)
