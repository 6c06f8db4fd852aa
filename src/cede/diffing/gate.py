"""A report against what a project demands of it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from cede.costs import seconds
from cede.diffing.diff import diff
from cede.errors import ConfigError
from cede.reporting.tables import share

if TYPE_CHECKING:
    from cede.diffing.saved import Saved

SHOWN = 10
"""How many ops one finding names."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Demands:
    """What a report must meet; None demands nothing.

    Attributes:
        coverage: least share of ops in delegates, 0 to 1.
        flops: least share of floating-point operations in delegates, 0 to 1.
        delegates: most delegates.
        seconds: most measured seconds of one call, or predicted ones where none were measured.
        slower: how much more seconds than the baseline's are allowed, as a share: 0.1 for 10 %.
    """

    coverage: float | None = None
    flops: float | None = None
    delegates: int | None = None
    seconds: float | None = None
    slower: float | None = None


def gate(new: Saved, demands: Demands, baseline: Saved | None = None) -> tuple[str, ...]:
    """Every demand that is not met, in words.

    A baseline demands that no op that was in a delegate is left now, and no more delegates than it
    has unless `demands.delegates` allows them.

    Raises:
        ConfigError: a demand that the file can't answer.
    """
    found = [*_shares(new, demands), *_time(new, demands, baseline)]
    most = demands.delegates
    if most is None and baseline is not None:
        most = baseline.totals["delegates"]
    if most is not None and new.totals["delegates"] > most:
        found.append(f"{new.totals['delegates']} delegates, at most {most} are allowed")
    if baseline is not None:
        fell = diff(baseline, new).fell
        named = [f"{move.op} ({move.reason or 'nobody said why'})" for move in fell[:SHOWN]]
        if fell:
            more = f" and {len(fell) - SHOWN} more" if len(fell) > SHOWN else ""
            found.append(f"{len(fell)} ops fell back: {', '.join(named)}{more}")
    return tuple(found)


def _shares(new: Saved, demands: Demands) -> list[str]:
    found = []
    for least, part, whole, what in (
        (demands.coverage, "delegated", "ops", "ops"),
        (demands.flops, "delegated_flops", "flops", "FLOPs"),
    ):
        if least is None:
            continue
        if whole not in new.totals:
            raise ConfigError(f"{new.name}: a plan has no {what}; give a report")
        taken, there = new.totals[part], new.totals[whole]
        if taken < least * there:
            wanted = f"{least * 100:.4g} %"
            found.append(f"{share(taken, there)} of {what} in delegates, {wanted} are demanded")
    return found


def _time(new: Saved, demands: Demands, baseline: Saved | None) -> list[str]:
    found = []
    if demands.seconds is not None:
        took, how = _seconds(new)
        if took > demands.seconds:
            most = seconds(demands.seconds)
            found.append(f"{how} {seconds(took)} a call, at most {most} are allowed")
    if demands.slower is not None:
        if baseline is None:
            raise ConfigError("how much slower is allowed needs a baseline")
        (took, how), (before, old_how) = _seconds(new), _seconds(baseline)
        if how != old_how:
            raise ConfigError(f"{new.name} is {how} and {baseline.name} {old_how}: not comparable")
        if took > before * (1 + demands.slower):
            found.append(
                f"{how} {seconds(took)} a call, {took / before - 1:.1%} over the baseline's "
                f"{seconds(before)}"
            )
    return found


def _seconds(saved: Saved) -> tuple[float, str]:
    if saved.measured is not None:
        return saved.measured, "measured"
    if saved.predicted is not None:
        return saved.predicted, "predicted"
    raise ConfigError(f"{saved.name}: has no seconds; write it with cede bench -f json")
