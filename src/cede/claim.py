"""Asking the partitioners: every one about every op, each answer checked, none able to stop us."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from cede.timelimit import time_limit
from cede.types import Claim, Code, Partitioner, Program, Reason, Refusal

if TYPE_CHECKING:
    from collections.abc import Callable

    from cede.planning import Source
    from cede.types import OpGraph

    Objects = Callable[[Claim, OpGraph], Reason | None]


@dataclass(frozen=True, slots=True, kw_only=True)
class Answers:
    """What one partitioner answered: every op stands in a claim or in a refusal.

    Attributes:
        claims: with known ops only; claims of one partitioner may share ops.
        refusals: one for every op in no claim.
        warnings: what was wrong with the partitioner, "" if nothing.
    """

    claims: tuple[Claim, ...]
    refusals: tuple[Refusal, ...]
    warnings: tuple[str, ...] = ()


def ask(
    partitioner: Partitioner,
    program: Program,
    *,
    source: Source,
    seconds: float,
    changed: Callable[[], str] = lambda: "",
    objects: Objects | None = None,
) -> Answers:
    """Ask one partitioner about every op of a program.

    Args:
        partitioner: who is asked.
        program: what it sees; `exported` should be its own copy.
        source: where it came from, for messages.
        seconds: how long it may take.
        changed: called afterwards: what it changed in the program, "" for nothing.
        objects: the backend's `Backend.objects`.
    """
    collector = _Collector(partitioner, program, objects)
    failure = ""
    try:
        with time_limit(seconds):
            for answer in partitioner.claim(program):
                collector.add(answer)
    except TimeoutError:
        failure = f"it took longer than {seconds:g} s"
    except KeyboardInterrupt:
        raise
    except BaseException as error:
        failure = f"{type(error).__name__}: {_first_line(error)}"
    if what := changed():
        # Its answers are about a graph that nobody else has.
        collector.claims.clear()
        collector.refused.clear()
        failure = f"it changed the graph ({what})"
    return collector.answers(failure, f"{source.name} ({source.distribution} {source.version})")


class _Collector:
    def __init__(
        self,
        partitioner: Partitioner,
        program: Program,
        objects: Objects | None,
    ) -> None:
        self.objects = objects
        self.name = partitioner.name
        self.backend = partitioner.backend
        self.graph = program.graph
        self.claims: list[Claim] = []
        self.refused: dict[str, Refusal] = {}
        self.faults: list[str] = []

    def add(self, answer: object) -> None:
        if isinstance(answer, Claim):
            fault = self._fault(answer)
            if not fault and answer.ops:
                self._accept(answer)
        elif isinstance(answer, Refusal):
            fault = self._refusal_fault(answer)
            if not fault:
                self.refused.setdefault(answer.op, answer)
        else:
            fault = f"an answer is a {type(answer).__name__}, not a Claim or Refusal"
        if fault:
            self.faults.append(fault)

    def _accept(self, claim: Claim) -> None:
        """Take what the backend doesn't object to; the rest is refused, for its reason."""
        objects = self.objects
        if objects is None:
            self.claims.append(claim)
            return
        parts = [replace(claim, ops=frozenset({op})) for op in claim.ops]
        against: dict[str, Reason] = {}
        for part in parts if claim.divisible else [claim]:
            if (reason := self._objection(objects, part)) is not None:
                against.update(dict.fromkeys(part.ops, reason))
        for op, reason in against.items():
            self.refused[op] = Refusal(partitioner=self.name, op=op, reason=reason)
        if left := claim.ops - against.keys():
            marks = tuple(mark for mark in claim.marks if mark[0] in left)
            self.claims.append(replace(claim, ops=left, marks=marks) if against else claim)

    def _objection(self, objects: Objects, claim: Claim) -> Reason | None:
        try:
            return objects(claim, self.graph)
        except Exception as error:
            detail = f"the backend {self.backend!r} failed when asked whether it objects"
            detail = f"{detail}: {type(error).__name__}: {_first_line(error)}"
            return Reason(code=Code.PLUGIN_FAILED, detail=detail)

    def _fault(self, claim: Claim) -> str:
        if claim.partitioner != self.name or claim.backend != self.backend:
            return (
                f"a claim says {claim.partitioner!r} for {claim.backend!r} instead of"
                f" {self.name!r} for {self.backend!r}"
            )
        if not isinstance(claim.ops, frozenset):
            return f"a claim has a {type(claim.ops).__name__} of ops, not a frozenset"
        if unknown := sorted(str(op) for op in claim.ops if op not in self.graph):
            return f"a claim names ops that don't exist: {', '.join(unknown[:5])}"
        if not _are_specs(claim.specs):
            return "a claim has specs that are no tuple of (str, bytes)"
        if not _are_marks(claim.marks, claim.ops):
            return "a claim has marks that are no tuple of (op of the claim, key, value)"
        return ""

    def _refusal_fault(self, refusal: Refusal) -> str:
        if refusal.partitioner != self.name:
            return f"a refusal says {refusal.partitioner!r} instead of {self.name!r}"
        if not isinstance(refusal.op, str) or refusal.op not in self.graph:
            return f"a refusal names an op that doesn't exist: {refusal.op}"
        reason = refusal.reason
        if not isinstance(reason, Reason) or not isinstance(reason.code, Code):
            return f"the refusal of {refusal.op} has no Reason with a Code"
        if not str(reason.detail).strip():
            return f"the refusal of {refusal.op} gives no reason"
        return ""

    def answers(self, failure: str, who: str) -> Answers:
        claimed = {op for claim in self.claims for op in claim.ops}
        refusals = []
        for op in self.graph.ops:
            if op.id in claimed:
                continue
            refusals.append(self.refused.get(op.id) or self._missing(op.id, failure, who))
        warnings = [f"partitioner {who}: {fault}" for fault in self.faults]
        if failure:
            warnings.append(f"partitioner {who} failed: {failure}")
        return Answers(
            claims=tuple(self.claims), refusals=tuple(refusals), warnings=tuple(warnings)
        )

    def _missing(self, op: str, failure: str, who: str) -> Refusal:
        reason = (
            Reason(code=Code.PLUGIN_FAILED, detail=f"{who}: {failure}")
            if failure
            else Reason(code=Code.NO_ANSWER, detail=f"{who} said nothing about this op")
        )
        return Refusal(partitioner=self.name, op=op, reason=reason)


def _are_specs(specs: object) -> bool:
    return isinstance(specs, tuple) and all(
        isinstance(spec, tuple)
        and len(spec) == 2
        and isinstance(spec[0], str)
        and isinstance(spec[1], bytes)
        for spec in specs
    )


def _are_marks(marks: object, ops: frozenset[str]) -> bool:
    return isinstance(marks, tuple) and all(
        isinstance(mark, tuple) and len(mark) == 3 and mark[0] in ops and isinstance(mark[1], str)
        for mark in marks
    )


def _first_line(error: BaseException) -> str:
    lines = str(error).strip().splitlines()
    return lines[0][:300] if lines else "(no message)"
