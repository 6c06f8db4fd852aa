"""What a what-if is asked about, and what it answers."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from cede.reporting.comparison import Comparison, Rank

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from cede.claim import Answers
    from cede.planning import Plan
    from cede.types import Delegation, Finding, OpGraph

__all__ = ["Asked", "Comparison", "Rank"]


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
