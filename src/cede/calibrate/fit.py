"""From measured calls to rates. Needs no torch.

A call of a program takes the runtime's own time, which every call has, and that of what is in it.
The runtime's own time is the difference between a program of one tiny op and what each further tiny
op adds; launch and borders are found likewise from programs that differ in their delegates alone.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

from cede.types import Measured, Rates

if TYPE_CHECKING:
    from collections.abc import Sequence

LEAST = 1e-8
"""Seconds that an op takes at least: what is measured as less is noise."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Sample:
    """One measured op.

    Attributes:
        kind: the operator without overload.
        dtype: of its first output.
        flops: floating-point operations.
        moved: bytes that it reads and writes.
        crossed: those of them that are no constants.
        seconds: of a call of a program of this op alone.
    """

    kind: str
    dtype: str
    flops: int
    moved: int
    crossed: int
    seconds: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Borders:
    """Measured calls of programs that differ in one thing.

    Attributes:
        op: seconds that one more tiny op adds, within one delegate.
        delegates: seconds that one more delegate of a tiny op adds, what stands between two
            delegates not counted.
        value: seconds that one more value that enters a delegate adds.
        bytes: of one large value.
        large: seconds that one more delegate of an op on a large value adds, less that op itself.
    """

    op: float
    delegates: float
    value: float
    bytes: int
    large: float


def fallback_rates(samples: Sequence[Sample], runtime: float, op: float) -> Rates:
    """Rates of the kernels that run where no delegate does.

    Args:
        samples: calls of single ops.
        runtime: seconds of a call of a program in which nothing happens.
        op: seconds that one more tiny op adds.
    """
    return _rates(samples, runtime, max(op, LEAST))


def backend_rates(samples: Sequence[Sample], runtime: float, borders: Borders) -> Rates:
    """Rates of a backend.

    Args:
        samples: calls of single ops, each in a delegate that one value enters and one leaves.
        runtime: seconds of a call of a program in which nothing happens.
        borders: what delegates add.
    """
    op, value = max(borders.op, LEAST), max(borders.value, 0.0)
    around = max(borders.delegates - op, LEAST)
    value = min(value, around / 2)
    moving = borders.large - around  # a large value enters and another one leaves
    speed = 2 * borders.bytes / moving if moving > 0 else math.inf
    return _rates(samples, runtime + around, op, around - 2 * value, value, speed)


def _rates(
    samples: Sequence[Sample],
    before: float,
    op: float,
    launch: float = 0.0,
    value: float = 0.0,
    speed: float = math.inf,
) -> Rates:
    points: dict[tuple[str, str], dict[int, float]] = {}
    largest: dict[tuple[str, str], tuple[Sample, float]] = {}
    for sample in samples:
        crossing = sample.crossed / speed
        took = max(sample.seconds - before - crossing, LEAST)
        kind = sample.kind, sample.dtype
        if kind not in largest or sample.moved > largest[kind][0].moved:
            largest[kind] = sample, took
        own = points.setdefault((sample.kind, sample.dtype), {})
        work = sample.flops or sample.moved
        own[work] = min(took, own.get(work, math.inf))
    # Small ops tell of overheads, not of peaks; and rates are float32's where it was measured.
    peaks = [found for (_, dtype), found in largest.items() if dtype == "float32"]
    peaks = peaks or list(largest.values())
    flops = max((s.flops / took for s, took in peaks if s.flops > s.moved), default=0.0)
    moved = max((s.moved / took for s, took in peaks), default=1.0)
    return Rates(
        flops_per_second=_rounded(flops or moved),
        bytes_per_second=_rounded(moved),
        op_seconds=_rounded(op),
        launch_seconds=_rounded(launch),
        border_seconds=_rounded(value),
        border_bytes_per_second=_rounded(speed),
        measured=tuple(
            Measured(
                kind=kind,
                dtype=dtype,
                points=_rising(own),
            )
            for (kind, dtype), own in sorted(points.items())
        ),
    )


def _rising(own: dict[int, float]) -> tuple[tuple[float, float], ...]:
    """Points by rising work. What takes longer than more work does was disturbed, and is cut."""
    least, found = math.inf, list[tuple[float, float]]()
    for work, took in sorted(own.items(), reverse=True):
        least = min(least, took)
        found.append((float(work), _rounded(least)))
    return tuple(reversed(found))


def _rounded(value: float) -> float:
    """To four digits: more are noise."""
    return float(f"{value:.4g}")
