"""A plan beside the plan under other answers: what a what-if finds."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

from cede.costs import seconds

if TYPE_CHECKING:
    from cede.reporting.records import Totals
    from cede.types import Reason


@dataclass(frozen=True, slots=True, kw_only=True)
class Comparison:
    """Before and after a change of the answers.

    Attributes:
        change: what was changed, as words ("supporting aten.group_norm on npu").
        before: totals of the plan.
        after: totals once the changed answers are settled.
        gained: ids of the ops that are in a delegate only after it, in graph order.
        lost: ids of the ops that are in a delegate only before it, in graph order.
        seconds_before: predicted seconds of a call, None where the plan has no costs.
        seconds_after: as `seconds_before`, once the changed answers are settled.
    """

    change: str
    before: Totals
    after: Totals
    gained: tuple[str, ...] = ()
    lost: tuple[str, ...] = ()
    seconds_before: float | None = None
    seconds_after: float | None = None

    @property
    def gain(self) -> str:
        """The numbers of before and after: "6 -> 1 delegates, 20 -> 26 of 30 ops, +12 % ..."."""
        old, new = self.before, self.after
        line = (
            f"{old.delegates} -> {new.delegates} delegates,"
            f" {old.delegated} -> {new.delegated} of {new.ops} ops,"
            f" {points(new.delegated_flops - old.delegated_flops, new.flops)} FLOPs covered,"
            f" {points(new.delegated_weight_bytes - old.delegated_weight_bytes, new.weight_bytes)}"
            " weight bytes covered"
        )
        then, now = self.seconds_before, self.seconds_after
        if then is None or now is None:
            return line
        return f"{line}, predicted {seconds(then)} -> {seconds(now)} a call"

    def __str__(self) -> str:
        return f"{self.change}: {self.gain}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Rank:
    """One operator that a backend refuses, and what its support would change.

    Attributes:
        kind: the operator without overload.
        backend: that would support it.
        ops: ids of the refused ops of that kind.
        touches: how many delegates of the backend these ops read from or are read by.
        reason: the most frequent reason of the backend's partitioners.
        comparison: before and after.
    """

    kind: str
    backend: str
    ops: tuple[str, ...]
    touches: int
    reason: Reason
    comparison: Comparison

    @property
    def merged(self) -> int:
        """How many delegates fewer there would be."""
        return self.comparison.before.delegates - self.comparison.after.delegates

    @property
    def flops(self) -> int:
        """How many floating-point operations more would be in delegates."""
        return self.comparison.after.delegated_flops - self.comparison.before.delegated_flops


def points(more: int, whole: int) -> str:
    """ "+12 %": a difference in per cent of the whole; 0 only where it is nothing."""
    if not more or not whole:
        return "+0 %"
    percent = 100 * more / whole
    shown = f"{percent:+.1f}"
    if shown in ("+0.0", "-0.0"):
        shown = f"{shown[0]}0.1"
    return f"{shown.removesuffix('.0')} %"


def rank_data(rank: Rank) -> dict[str, Any]:
    """As values of JSON types."""
    return {
        "operator": rank.kind,
        "backend": rank.backend,
        "ops": list(rank.ops),
        "touches": rank.touches,
        "code": rank.reason.code.value,
        "detail": rank.reason.detail,
        **comparison_data(rank.comparison),
    }


def comparison_data(given: Comparison) -> dict[str, Any]:
    """As values of JSON types; without seconds where the plan has no costs."""
    data: dict[str, Any] = {
        "change": given.change,
        "text": str(given),
        "before": asdict(given.before),
        "after": asdict(given.after),
        "gained": list(given.gained),
        "lost": list(given.lost),
    }
    if given.seconds_before is not None and given.seconds_after is not None:
        data |= {"seconds_before": given.seconds_before, "seconds_after": given.seconds_after}
    return data
