"""How far outputs are from what eager gives."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import torch

if TYPE_CHECKING:
    from collections.abc import Sequence

    from cede.config import CheckConfig

HALF = {torch.bfloat16: 1.6e-2, torch.float16: 2e-3}
"""Rounding of half precision, relative."""

FEW = 0.01
"""Of the numbers of an output that is rounded to integers, so many may be one step off."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Difference:
    """How far the outputs of one or several calls are from eager's.

    Attributes:
        max_error: largest absolute difference; infinite where an output has another shape or
            dtype, or is finite on one side only.
        total_error: sum of the absolute differences of the `count` numbers that are finite on both
            sides.
        count: of those.
        noise: sum of their squared differences.
        signal: sum of the squares of eager's.
        stepped: numbers that are out of tolerance by one step of their integers, and no more.
        fault: what is out of tolerance first, "" for nothing.
    """

    max_error: float = 0.0
    total_error: float = 0.0
    count: int = 0
    noise: float = 0.0
    signal: float = 0.0
    stepped: int = 0
    fault: str = ""

    @property
    def mean_error(self) -> float:
        """Mean absolute difference."""
        return self.total_error / self.count if self.count else 0.0

    @property
    def sqnr(self) -> float:
        """Signal to quantization noise in dB, infinite where there is no noise."""
        if self.noise == 0.0:
            return math.inf
        return 10 * math.log10(self.signal / self.noise) if self.signal else -math.inf

    def __add__(self, other: Difference) -> Difference:
        return Difference(
            max_error=max(self.max_error, other.max_error),
            total_error=self.total_error + other.total_error,
            count=self.count + other.count,
            noise=self.noise + other.noise,
            signal=self.signal + other.signal,
            stepped=self.stepped + other.stepped,
            fault=self.fault or other.fault,
        )

    @property
    def rounded(self) -> str:
        """A note on the numbers that are one step off, "" where there are none."""
        if not self.stepped:
            return ""
        return f"{self.stepped:,} of {self.count:,} numbers rounded to the next step"


def compare(
    got: Sequence[Any],
    wanted: Sequence[Any],
    tolerance: CheckConfig,
    steps: Sequence[float] = (),
) -> Difference:
    """Compare flat outputs with eager's.

    Args:
        got: tensors and numbers.
        wanted: the same of eager.
        tolerance: |got - wanted| <= atol + rtol * |wanted|; atol alone for integers.
        steps: of each output (`steps_of`): a hundredth of its numbers may be that much further
            off, or one number. Sums in another order round to the other of two integers.
    """
    if len(got) != len(wanted):
        return _wrong(f"{len(got)} outputs instead of {len(wanted)}")
    found = Difference()
    for i, (mine, other) in enumerate(zip(got, wanted, strict=True)):
        if not isinstance(other, torch.Tensor):
            if isinstance(mine, torch.Tensor) or mine != other:
                return found + _wrong(f"output {i} is {mine} instead of {other}")
            continue
        if not isinstance(mine, torch.Tensor):
            return found + _wrong(f"output {i} is {mine} instead of a tensor")
        if mine.shape != other.shape or mine.dtype != other.dtype:
            return found + _wrong(
                f"output {i} is {mine.dtype}{list(mine.shape)} instead of"
                f" {other.dtype}{list(other.shape)}"
            )
        found += _difference(mine, other, tolerance, i, steps[i] if steps else 0.0)
        if found.fault:
            return found
    return found


def _wrong(fault: str) -> Difference:
    return Difference(max_error=math.inf, fault=fault)


def _difference(
    mine: torch.Tensor, other: torch.Tensor, tolerance: CheckConfig, number: int, step: float
) -> Difference:
    if not other.numel():
        return Difference()
    mine, other = mine.detach(), other.detach()
    if other.is_complex():
        mine, other = torch.view_as_real(mine), torch.view_as_real(other)
    same = (mine == other) | (mine.isnan() & other.isnan())
    first, second = mine.to(torch.float64), other.to(torch.float64)
    distance = torch.where(same, 0.0, (first - second).abs())
    finite = first.isfinite() & second.isfinite()
    if other.is_floating_point():
        # A half-precision result can't be closer than its own rounding.
        rounding = HALF.get(other.dtype, 0.0)
        rtol = max(tolerance.rtol, rounding)
        allowed = max(tolerance.atol, rounding) + rtol * second.abs()
    else:
        # Large integers may differ and be one float64.
        distance = torch.where(same, 0.0, distance.clamp(min=1.0))
        allowed = torch.full_like(second, tolerance.atol)
    far = ~(same | (distance <= allowed) & second.isfinite())
    stepped = int(far.sum())
    near = step > 0 and bool((finite & (distance <= allowed + step))[far].all())
    close = not stepped or (near and stepped <= max(1, FEW * other.numel()))
    error = float(distance.nan_to_num(nan=math.inf, posinf=math.inf).max())
    return Difference(
        max_error=error,
        total_error=float(distance[finite].sum()),
        count=int(finite.sum()),
        noise=float(distance[finite].square().sum()),
        signal=float(second[finite].square().sum()),
        stepped=stepped if close else 0,
        fault="" if close else f"output {number} differs by up to {error:.3g}",
    )
