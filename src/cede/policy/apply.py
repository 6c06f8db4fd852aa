"""Answers as the policy lets them stand."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING

from cede.policy.selector import chosen
from cede.types import Claim, Code, Reason, Refusal

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from cede.claim import Answers
    from cede.policy.rules import Policy
    from cede.types import OpGraph

Forbidden = Mapping[str, Reason]
"""Why a backend may not have an op, by op."""


def apply(policy: Policy, graph: OpGraph, answers: Sequence[Answers]) -> tuple[Answers, ...]:
    """What partitioners answered, where claims that the policy forbids are refusals ("policy").

    A divisible claim loses the forbidden ops. Another claim goes as a whole, and the reason of its
    other ops names the forbidden one. An op that stands in another claim of the partitioner is not
    refused. Then all claims but the first `max_claims` go; a divisible claim counts once for each
    op (getitems aside), as `settle` may have its ops one by one.

    Args:
        policy: the rules.
        graph: the facts.
        answers: one per partitioner, in priority order.

    Returns:
        As many; every op of each stands in a claim or in a refusal, as before.
    """
    backends = {claim.backend for given in answers for claim in given.claims}
    forbidden = {name: _forbidden(policy, graph, name) for name in backends}
    left = [_permitted(given, graph, forbidden) for given in answers]
    if policy.max_claims is not None:
        left = _first(left, graph, policy.max_claims, policy.fuel)
    return tuple(left)


def without(
    graph: OpGraph, answers: Sequence[Answers], forbidden: Mapping[str, Forbidden]
) -> tuple[Answers, ...]:
    """The answers without what is forbidden, by backend, as `apply` leaves it out."""
    return tuple(_permitted(given, graph, forbidden) for given in answers)


def _forbidden(policy: Policy, graph: OpGraph, backend: str) -> Forbidden:
    found: dict[str, Reason] = {}

    def forbid(ops: Iterable[str], rule: str) -> None:
        for op in ops:
            if op not in found:
                found[op] = Reason(code=Code.POLICY, detail=rule.format(op=op))

    for rule in policy.exclude:
        if rule.selector.backend in ("", backend):
            forbid(chosen(rule.selector, graph), _text(f"{rule} excludes", f"from {backend}"))
    for rule in policy.pin:
        if rule.selector.backend != backend:
            forbid(
                chosen(rule.selector, graph), _text(f"{rule} pins", f"to {rule.selector.backend}")
            )
    return found


def _text(head: str, tail: str) -> str:
    # a pattern may have braces
    return f"{_braced(head)} {{op}} {_braced(tail)}"


def _braced(text: str) -> str:
    return text.replace("{", "{{").replace("}", "}}")


def _permitted(given: Answers, graph: OpGraph, forbidden: Mapping[str, Forbidden]) -> Answers:
    claims: list[Claim] = []
    refused: dict[str, Reason] = {}
    for claim in given.claims:
        rules = forbidden.get(claim.backend, {})
        bad = sorted((op for op in claim.ops if op in rules), key=graph.position)
        if not bad:
            claims.append(claim)
            continue
        for op in bad:
            refused.setdefault(op, rules[op])
        if claim.divisible:
            claims.extend(_only(claim, claim.ops.difference(bad)))
            continue
        why = f"it goes with {bad[0]} or not at all, and {rules[bad[0]].detail}"
        for op in claim.ops.difference(bad):
            refused.setdefault(op, Reason(code=rules[bad[0]].code, detail=why))
    return _answers(given, graph, claims, refused)


def _only(claim: Claim, ops: frozenset[str]) -> tuple[Claim, ...]:
    """The claim with these of its ops; none where none is left."""
    if not ops:
        return ()
    return (replace(claim, ops=ops, marks=tuple(m for m in claim.marks if m[0] in ops)),)


def _answers(
    given: Answers, graph: OpGraph, claims: Sequence[Claim], refused: Mapping[str, Reason]
) -> Answers:
    if not refused:
        return given
    claimed = {op for claim in claims for op in claim.ops}
    who = given.claims[0].partitioner
    more = [
        Refusal(partitioner=who, op=op, reason=reason)
        for op, reason in refused.items()
        if op not in claimed
    ]
    refusals = sorted((*given.refusals, *more), key=lambda refusal: graph.position(refusal.op))
    return replace(given, claims=tuple(claims), refusals=tuple(refusals))


def _first(answers: Sequence[Answers], graph: OpGraph, most: int, fuel: str) -> list[Answers]:
    """The answers with the first claims only: by partitioner, then by their first op."""
    burnt, left = 0, []
    for given in answers:
        units = sorted(
            (sorted(map(graph.position, unit)), number, unit)
            for number, claim in enumerate(given.claims)
            for unit in _units(claim, graph)
        )
        standing: dict[int, set[str]] = {}
        refused: dict[str, Reason] = {}
        for _, number, unit in units:
            burnt += 1
            if burnt <= most:
                standing.setdefault(number, set()).update(unit)
                continue
            reason = Reason(
                code=Code.POLICY, detail=f"{fuel} is {most}, and this is claim number {burnt}"
            )
            for op in unit:
                refused.setdefault(op, reason)
        claims = [
            one
            for number, claim in enumerate(given.claims)
            for one in _only(claim, frozenset(standing.get(number, ())))
        ]
        left.append(_answers(given, graph, claims, refused))
    return left


def _units(claim: Claim, graph: OpGraph) -> list[tuple[str, ...]]:
    """What of a claim counts as one: all of it, or each op with its getitems."""
    if not claim.divisible:
        return [tuple(claim.ops)]
    units: dict[str, list[str]] = {}
    for id in sorted(claim.ops, key=graph.position):
        op, host = graph.op(id), id
        while op.target == "getitem" and op.inputs and op.inputs[0] in claim.ops:
            host = op.inputs[0]
            op = graph.op(host)
        units.setdefault(host, []).append(id)
    return [tuple(unit) for unit in units.values()]
