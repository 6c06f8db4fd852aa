"""From answers to a checked plan."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING

from cede.errors import PlanError
from cede.lowering.costing import costs_for
from cede.planning import Plan
from cede.policy import apply, read_policy
from cede.policy.selector import chosen
from cede.settle import check_settlement
from cede.types import Contest, Limits

if TYPE_CHECKING:
    from collections.abc import Sequence

    from cede.claim import Answers
    from cede.config import Config
    from cede.host import Host
    from cede.types import Costs, Delegation, OpGraph, Partitioner, Settlement


def make_plan(
    graph: OpGraph,
    answers: Sequence[Answers],
    partitioners: Sequence[Partitioner],
    host: Host,
    config: Config,
    kept: tuple[str, ...] = (),
    warnings: tuple[str, ...] = (),
) -> Plan:
    """Settle what the policy leaves of the answers, and check the outcome.

    Args:
        graph: the facts.
        answers, partitioners: one of each, in priority order.
        host: settles, and knows where each record came from.
        config: policy, limits and mode.
        kept: names of the ATen nodes kept whole.
        warnings: what came up before.

    Raises:
        PlanError: a plugin's own settling gave an impossible outcome.
    """
    names = tuple(dict.fromkeys(p.backend for p in partitioners))
    costs, notes = costs_for(graph, answers, names, host, config)
    answers, settlement, more = settled(graph, answers, partitioners, host, config, costs)
    told = tuple(text for given in answers for text in given.warnings)
    if faults := check_settlement(graph, settlement):
        raise PlanError("settling gave an impossible plan: " + "; ".join(faults[:5]))
    return Plan(
        fingerprint=graph.fingerprint,
        delegations=tuple(_marked(given, answers) for given in settlement.delegations),
        refusals=tuple(refusal for given in answers for refusal in given.refusals),
        losses=settlement.losses,
        kept=kept,
        partitioners=tuple(host.source("partitioner", p.name) for p in partitioners),
        backends=tuple(host.source("backend", name) for name in names),
        warnings=(*warnings, *told, *notes, *more),
        graph=graph,
        costs=costs,
    )


def settled(
    graph: OpGraph,
    answers: Sequence[Answers],
    partitioners: Sequence[Partitioner],
    host: Host,
    config: Config,
    costs: Costs | None = None,
) -> tuple[tuple[Answers, ...], Settlement, tuple[str, ...]]:
    """What the policy leaves of the answers, the settlement of that, and warnings.

    Costs that cost mode needs and that are not given are found out.
    """
    policy = read_policy(config)
    left = apply(policy, graph, answers)
    names = tuple(dict.fromkeys(p.backend for p in partitioners))
    contest = _contest(graph, left, partitioners, names, host, config)
    rules = (*policy.pin, *policy.require)
    contest = dataclasses.replace(
        contest,
        overall=policy.overall,
        wanted=frozenset(op for rule in rules for op in chosen(rule.selector, graph)),
        costs=costs or costs_for(graph, answers, names, host, config)[0],
    )
    settlement, notes = host.settle(contest)
    return left, settlement, notes


def _marked(delegation: Delegation, answers: Sequence[Answers]) -> Delegation:
    won = {(part.partitioner, op) for part in delegation.parts for op in part.ops}
    marks = {
        mark: None
        for given in answers
        for claim in given.claims
        for mark in claim.marks
        if (claim.partitioner, mark[0]) in won
    }
    return dataclasses.replace(delegation, marks=tuple(marks)) if marks else delegation


def _contest(
    graph: OpGraph,
    answers: Sequence[Answers],
    partitioners: Sequence[Partitioner],
    names: tuple[str, ...],
    host: Host,
    config: Config,
) -> Contest:
    return Contest(
        graph=graph,
        claims=tuple(claim for given in answers for claim in given.claims),
        order=tuple(p.name for p in partitioners),
        limits={name: limits_for(host, name, config) for name in names},
        connected=frozenset(name for name in names if host.backend(name).connected),
        mode=config.settle,
    )


def limits_for(host: Host, backend: str, config: Config) -> Limits:
    """The backend's own limits, with those that the config sets."""
    own = host.backend(backend).limits
    given = config.limits.get(backend)
    if given is None:
        return own
    chosen = {key: value for key, value in dataclasses.asdict(given).items() if value is not None}
    return dataclasses.replace(own, **chosen)
