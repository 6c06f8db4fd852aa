"""Records between the answers and the plan: what `settle` is given and gives back."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from cede.types.backend import Limits

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

    from cede.types.answers import Claim, Mark, Reason, Spec
    from cede.types.costs import Costs
    from cede.types.graph import OpGraph


@dataclass(frozen=True, slots=True, kw_only=True)
class Contest:
    """Everything that decides who gets which op.

    Attributes:
        graph: the facts.
        claims: every claim, valid ids only.
        order: partitioner names, the first wins an op that several claim.
        limits: by backend name.
        overall: bounds that hold whatever the backend, `max_delegates` for all together.
        connected: names of backends whose delegates must be weakly connected.
        mode: how to settle ("priority" or "cost").
        wanted: ops that "cost" mode leaves to the fallback only where nothing else is possible.
        costs: what "cost" mode decides by, with rates for each backend that is claimed for.
    """

    graph: OpGraph
    claims: tuple[Claim, ...]
    order: tuple[str, ...]
    limits: Mapping[str, Limits] = field(default_factory=dict)
    overall: Limits = field(default_factory=Limits)
    connected: frozenset[str] = frozenset()
    mode: str = "priority"
    wanted: frozenset[str] = frozenset()
    costs: Costs | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Part:
    """The ops of one delegation that one partitioner claimed, in execution order."""

    partitioner: str
    ops: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Delegation:
    """A subgraph that becomes one delegate.

    Attributes:
        id: "d0", "d1", ... in execution order.
        backend: name of the backend.
        parts: who claimed what; several partitioners may share a delegate of one backend.
        specs: compile specs, () for those of the backend's options.
        marks: the marks of the winning claims, for its ops.
    """

    id: str
    backend: str
    parts: tuple[Part, ...]
    specs: tuple[Spec, ...] = ()
    marks: tuple[Mark, ...] = ()

    @property
    def ops(self) -> tuple[str, ...]:
        """Ids of all its ops, part by part."""
        return tuple(op for part in self.parts for op in part.ops)

    def cut(self, ops: Collection[str]) -> Delegation:
        """The same with no other ops than these."""
        parts = (
            replace(part, ops=tuple(op for op in part.ops if op in ops)) for part in self.parts
        )
        return replace(
            self,
            parts=tuple(part for part in parts if part.ops),
            marks=tuple(mark for mark in self.marks if mark[0] in ops),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Loss:
    """An op that a partitioner claimed and did not get, and why."""

    partitioner: str
    backend: str
    op: str
    reason: Reason


@dataclass(frozen=True, slots=True, kw_only=True)
class Settlement:
    """The outcome: disjoint, convex delegations whose quotient graph is acyclic."""

    delegations: tuple[Delegation, ...]
    losses: tuple[Loss, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """What a `cede_review` hook found in a plan.

    Attributes:
        severity: "note", "warning" or "error"; an error stops lowering.
        message: a sentence, with what to do.
        op: the op that it is about, "" for the whole plan.
    """

    severity: str
    message: str
    op: str = ""
