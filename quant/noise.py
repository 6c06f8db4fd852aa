"""Signal to quantization noise: measured, shown, and as JSON takes it."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from torch import Tensor

_PART = 1 << 20
"""So many numbers are compared at a time: float64 of a whole weight would be the peak of memory."""


def sqnr(wanted: Tensor, got: Tensor) -> float:
    """Signal to quantization noise in dB, in float64; infinite where there is no noise.

    Args:
        wanted: of any shape and dtype.
        got: of the same shape.
    """
    import torch

    noise = signal = 0.0
    parts = (torch.split(each.detach().reshape(-1), _PART) for each in (wanted, got))
    for one, other in zip(*parts, strict=True):
        exact = one.double()
        noise += float((exact - other.double()).square().sum())
        signal += float(exact.square().sum())
    if noise == 0.0:
        return math.inf
    return 10 * math.log10(signal / noise) if signal else -math.inf


def decibel(value: float | None) -> str:
    """ "23.5 dB"; "-" for what was not measured."""
    return "-" if value is None else f"{value:.1f} dB"


def finite(value: float | None) -> float | None:
    """JSON has no infinity: no noise is null, as is what was not measured."""
    return value if value is not None and math.isfinite(value) else None
