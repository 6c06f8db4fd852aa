"""A small language for constraints: rules per operator, a partitioner made of them, and vetoes."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from fnmatch import fnmatchcase
from functools import wraps
from typing import TYPE_CHECKING, Any, TypeAlias

from cede.partitioners.rules.checks import (
    Check,
    argument,
    constant,
    divisible,
    dtype,
    produced_by,
    quantized,
    rank,
    same_dtype,
    static_shape,
)
from cede.partitioners.wrapped import Wrapped
from cede.types import Claim, Code, Keep, Op, OpGraph, Reason, Refusal

if TYPE_CHECKING:
    from collections.abc import Iterator

    from cede.types import Program

__all__ = [
    "Check",
    "Rule",
    "Ruled",
    "Veto",
    "Vetoed",
    "argument",
    "constant",
    "divisible",
    "dtype",
    "per_op",
    "produced_by",
    "quantized",
    "rank",
    "same_dtype",
    "static_shape",
]


@dataclass(frozen=True, slots=True)
class Rule:
    """What must hold for some operators.

    Attributes:
        ops: operators with overload; "*" matches any part ("aten.max_pool2d*").
        checks: all must pass; the first that doesn't gives the reason.
        note: what the table says about a claim made by this rule.
    """

    ops: tuple[str, ...]
    checks: tuple[Check, ...] = ()
    note: str = ""

    def covers(self, target: str) -> bool:
        """Whether the rule is about this operator."""
        return any(fnmatchcase(target, pattern) for pattern in self.ops)

    def refuses(self, op: Op, graph: OpGraph) -> Reason | None:
        """The first reason against the op, None if all checks pass."""
        for check in self.checks:
            if (reason := check(op, graph)) is not None:
                return reason
        return None


@dataclass(frozen=True, slots=True, kw_only=True)
class Ruled:
    """A partitioner made of rules: each op alone is claimed if a rule for it passes.

    Attributes:
        name: name of the partitioner.
        backend: name of the backend that it claims for.
        rules: tried in order; the reason of the last rule about the op stands.
        keep: gives ATen operators to keep whole; imports torch when called.
    """

    name: str
    backend: str
    rules: tuple[Rule, ...]
    keep: Callable[[], tuple[Any, ...]] = tuple

    def keeps(self, program: Program) -> Keep:
        """The operators of `keep`, every one of them."""
        return Keep(ops=self.keep())

    def claim(self, program: Program) -> Iterator[Claim | Refusal]:
        """One answer an op."""
        for op in program.graph.ops:
            yield self._answer(op, program.graph)

    def _answer(self, op: Op, graph: OpGraph) -> Claim | Refusal:
        reason = Reason(code=Code.UNKNOWN_OP, detail=f"no rule for {op.target}")
        for rule in self.rules:
            if rule.covers(op.target):
                found = rule.refuses(op, graph)
                if found is None:
                    return Claim(
                        partitioner=self.name,
                        backend=self.backend,
                        ops=frozenset({op.id}),
                        note=rule.note,
                    )
                reason = found
        return Refusal(partitioner=self.name, op=op.id, reason=reason)


Veto: TypeAlias = Callable[[Claim, OpGraph], "Reason | None"]
"""Looks at a whole claim: None, or why the backend must not have it."""


def per_op(check: Check) -> Veto:
    """A veto that holds the ops of a claim against a check, one by one in graph order."""

    @wraps(check)
    def veto(claim: Claim, graph: OpGraph) -> Reason | None:
        reasons = (check(graph.op(id), graph) for id in sorted(claim.ops, key=graph.position))
        return next((reason for reason in reasons if reason is not None), None)

    return veto


def any_of(*vetoes: Veto) -> Veto:
    """A veto that holds a claim against several: the reason of the first that objects."""

    def veto(claim: Claim, graph: OpGraph) -> Reason | None:
        reasons = (each(claim, graph) for each in vetoes)
        return next((reason for reason in reasons if reason is not None), None)

    return veto


@dataclass(frozen=True, slots=True, kw_only=True)
class Vetoed(Wrapped):
    """Another partitioner, whose claims must also pass vetoes.

    Attributes:
        inner: the partitioner that is asked.
        vetoes: a claim that any of them objects to becomes a refusal of each of its ops.
        keep_unless: asked about each ATen node that `inner` wants whole: True decomposes it. What
            a veto will refuse should not be kept.
    """

    vetoes: tuple[Veto, ...]
    keep_unless: Callable[[Any], bool] | None = None

    def keeps(self, program: Program) -> Keep:
        """What `inner` wants whole and no veto will refuse."""
        keep = self.inner.keeps(program)
        unless = self.keep_unless
        if unless is None:
            return keep
        accepts = keep.accepts
        return Keep(
            ops=keep.ops,
            accepts=lambda node: (accepts is None or accepts(node)) and not unless(node),
            certain=keep.certain,
        )

    def claim(self, program: Program) -> Iterator[Claim | Refusal]:
        """The inner partitioner's answers, claims checked."""
        veto = any_of(*self.vetoes)
        for answer in self.inner.claim(program):
            reason = None if isinstance(answer, Refusal) else veto(answer, program.graph)
            if reason is None or isinstance(answer, Refusal):
                yield answer
            else:
                for op in sorted(answer.ops, key=program.graph.position):
                    yield Refusal(partitioner=self.name, op=op, reason=reason)
