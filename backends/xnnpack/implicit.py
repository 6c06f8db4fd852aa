"""Quantize and dequantize ops that the delegate leaves out, for the op beside them means them.

The stock partitioner marks them. It does so also beside a matrix product that it then refuses
(ExecuTorch 1.5.1): the op is delegated alone, its delegate leaves it out, and floats are read as
integers, or integers as floats.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from cede.partitioners.wrapped import Wrapped
from cede.types import Claim, Code, Reason

if TYPE_CHECKING:
    from collections.abc import Iterator

    from cede.types import Op, OpGraph, Program, Refusal

MARK = "IS_IMPLICIT_Q_DQ_TAG"


@dataclass(frozen=True, slots=True, kw_only=True)
class Implicit(Wrapped):
    """A partitioner whose claims mark only those that stand beside what they are meant for.

    Attributes:
        inner: answers.
    """

    def claim(self, program: Program) -> Iterator[Claim | Refusal]:
        """The inner answers, claims without the marks that mean nothing."""
        for answer in self.inner.claim(program):
            if not isinstance(answer, Claim):
                yield answer
                continue
            graph = program.graph
            marks = tuple(
                mark
                for mark in answer.marks
                if mark[1] != MARK or _beside(graph.op(mark[0]), answer, graph)
            )
            yield replace(answer, marks=marks)


def _beside(op: Op, claim: Claim, graph: OpGraph) -> bool:
    """Whether the op that a quantize or dequantize op is meant for is in the same claim."""
    if "dequantize" in op.target:
        return any(user in claim.ops for user in graph.users(op.id))
    return any(used in claim.ops for used in op.inputs)


def read_outside(claim: Claim, graph: OpGraph) -> Reason | None:
    """Veto an op whose dequantize is left out, where another op outside reads that too."""
    for id, key, _ in claim.marks:
        if key != MARK or "dequantize" not in graph.op(id).target:
            continue
        outside = [user for user in graph.users(id) if user not in claim.ops]
        if outside and graph.op(id).inputs[0] in graph:
            return Reason(
                code=Code.QUANT_SCHEME,
                detail=f"{id} is computed with the op that reads it, and {outside[0]} reads it too",
            )
    return None
