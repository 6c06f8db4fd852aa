"""A plan against the policy of its config."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING

from cede.errors import PolicyError
from cede.policy import judge, unmatched

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Sequence

    from cede.planning import Plan
    from cede.policy import Policy
    from cede.types import Finding, OpGraph, Partitioner


def policed(
    plan: Plan,
    graph: OpGraph,
    policy: Policy,
    partitioners: Sequence[Partitioner],
    decomposed: Collection[str] | None,
) -> tuple[Plan, tuple[Finding, ...]]:
    """The plan with what the policy warns of, and the findings on where it is not met.

    Args:
        plan: made here or elsewhere.
        graph: the facts.
        policy: the rules.
        partitioners: those that were asked.
        decomposed: names of the ATen nodes that could not stay whole; None for a
            plan from elsewhere, whose warnings were given when it was made.
    """
    findings = judge(policy, graph, plan, {p.name: p.backend for p in partitioners})
    warnings = [] if decomposed is None else [*unmatched(policy, graph, decomposed)]
    warnings += [given.message for given in findings if given.severity == "warning"]
    new = [text for text in warnings if text not in plan.warnings]
    return dataclasses.replace(plan, warnings=(*plan.warnings, *new)), findings


def insist_on(findings: Iterable[Finding]) -> None:
    """Stop at findings that are errors.

    Raises:
        PolicyError: all of them, with every op and reason.
    """
    if errors := [given.message for given in findings if given.severity == "error"]:
        raise PolicyError("\n".join(errors))
