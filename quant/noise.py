"""Signal to quantization noise: measured, shown, and as JSON takes it."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from torch import Tensor


def sqnr(wanted: Tensor, got: Tensor) -> float:
    """Signal to quantization noise in dB, in float64; infinite where there is no noise.

    Args:
        wanted: of any shape and dtype.
        got: of the same shape.
    """
    wanted, got = wanted.detach().double(), got.detach().double()
    noise, signal = float((wanted - got).square().sum()), float(wanted.square().sum())
    if noise == 0.0:
        return math.inf
    return 10 * math.log10(signal / noise) if signal else -math.inf


def decibel(value: float | None) -> str:
    """ "23.5 dB"; "-" for what was not measured."""
    return "-" if value is None else f"{value:.1f} dB"


def finite(value: float | None) -> float | None:
    """JSON has no infinity: no noise is null, as is what was not measured."""
    return value if value is not None and math.isfinite(value) else None
