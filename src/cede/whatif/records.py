"""What a what-if is asked about, and what it answers."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from cede.claim import Answers
    from cede.planning import Plan
    from cede.reporting import Totals
    from cede.types import Delegation, Finding, OpGraph, Reason


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """A program about which every partitioner was asked, with its plan.

    Attributes:
        graph: the facts.
        answers: what each partitioner answered, before the policy, in priority order.
        backends: the backend of each partitioner that was asked.
        settle: from answers to delegations, under the same config, its policy and limits included.
        plan: what the answers were settled to.
        findings: where the plan does not meet the policy.
    """

    graph: OpGraph
    answers: tuple[Answers, ...]
    backends: Mapping[str, str]
    settle: Callable[[Sequence[Answers]], tuple[Delegation, ...]]
    plan: Plan
    findings: tuple[Finding, ...] = ()


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

    def __str__(self) -> str:
        from cede.whatif.show import sentence

        return sentence(self)


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
