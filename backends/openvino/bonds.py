"""Ops that share a tensor without dimensions: one delegate has them all, or none of them."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from cede.partitioners.wrapped import Wrapped
from cede.types import Claim, Code, Reason, Refusal

if TYPE_CHECKING:
    from collections.abc import Iterator

    from cede.types import Op, OpGraph, Program


@dataclass(frozen=True, slots=True, kw_only=True)
class Bonded(Wrapped):
    """Another partitioner, whose delegates neither take nor give tensors without dimensions.

    The delegate's runtime refuses such a tensor, but inside a delegate it is as good as any: ops
    that make one are claimed together with those that read it. Constants don't count, as a
    delegate owns those that it reads.

    Attributes:
        inner: the partitioner that is asked; its claims must be one op each, as `Adopted` makes
            them of partitioners that group by capability.
    """

    def claim(self, program: Program) -> Iterator[Claim | Refusal]:
        """The inner partitioner's answers, claims joined or refused where a scalar crosses."""
        graph = program.graph
        claims: dict[str, Claim] = {}
        for answer in self.inner.claim(program):
            if isinstance(answer, Refusal):
                yield answer
            else:
                claims.update(dict.fromkeys(answer.ops, answer))
        for op, reason in _crossed(claims, graph).items():
            del claims[op]
            yield Refusal(partitioner=self.name, op=op, reason=reason)
        for group in _groups(claims, graph):
            yield _joined([claims[op] for op in group])


def _is_scalar(id: str, graph: OpGraph) -> bool:
    """Whether the value has no dimension; of an op with several results none counts here."""
    given = graph.input(id)
    if given is not None and given.constant:
        return False
    facts = (given.tensor,) if given is not None else graph.op(id).outputs
    if len(facts) != 1 or facts[0] is None:
        return False
    return not facts[0].shape and not facts[0].dtype.startswith("Sym")


def _crossed(claims: dict[str, Claim], graph: OpGraph) -> dict[str, Reason]:
    """Claimed ops that would take a scalar from outside or give one, and why, in O(V+E)."""
    leaving = {*graph.outputs, *(op for _, op in graph.mutations)}
    leaving.update(id for _, ids in graph.returns for id in ids)
    held = set(claims)
    found: dict[str, Reason] = {}
    waiting = list(claims)
    while waiting:
        id = waiting.pop()
        if id in held and (detail := _crossing(graph.op(id), graph, held, leaving)):
            held.discard(id)
            found[id] = Reason(code=Code.SHAPE, detail=detail)
            waiting += [*graph.users(id), *graph.op(id).inputs]
    return found


def _crossing(op: Op, graph: OpGraph, held: set[str], leaving: set[str]) -> str:
    """Where a scalar would enter or leave the delegate at this op, "" if nowhere."""
    rule = "the delegate's runtime can't pass a tensor without dimensions"
    for used in op.inputs:
        if used not in held and _is_scalar(used, graph):
            return f"input {used} of {op.target} comes from outside the delegate: {rule}"
    if _is_scalar(op.id, graph):
        if op.id in leaving:
            return f"the result of {op.target} leaves the program: {rule}"
        for user in graph.users(op.id):
            if user not in held:
                return f"the result of {op.target} is read outside the delegate, by {user}: {rule}"
    return ""


def _groups(claims: dict[str, Claim], graph: OpGraph) -> list[list[str]]:
    """The claimed ops, those that share a scalar together, in graph order."""
    parent = {id: id for id in claims}

    def root(id: str) -> str:
        while parent[id] != id:
            parent[id] = parent[parent[id]]
            id = parent[id]
        return id

    for id in claims:
        if _is_scalar(id, graph):
            for other in graph.users(id):
                parent[root(other)] = root(id)
    groups: dict[str, list[str]] = {}
    for id in sorted(claims, key=graph.position):
        groups.setdefault(root(id), []).append(id)
    return list(groups.values())


def _joined(claims: list[Claim]) -> Claim:
    if len(claims) == 1:
        return claims[0]
    return replace(
        claims[0],
        ops=frozenset(op for claim in claims for op in claim.ops),
        marks=tuple(mark for claim in claims for mark in claim.marks),
        note="joined by a tensor without dimensions",
    )
