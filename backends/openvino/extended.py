"""Operators that OpenVINO converts and that ExecuTorch's partitioner has not in its list."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from cede.partitioners.wrapped import Wrapped
from cede.types import Claim, Refusal

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from cede.types import Program, Spec

_ALSO = ("aten.linear.default",)


@dataclass(frozen=True, slots=True, kw_only=True)
class Extended(Wrapped):
    """Another partitioner that also takes what a partitioner of another backend has kept whole.

    The stock list has what remains of these operators once they are decomposed.

    Attributes:
        inner: the partitioner that is asked.
        specs: compile specs for the options, so that one delegate may have all.
    """

    specs: Callable[[Any], Sequence[Spec]]

    def claim(self, program: Program) -> Iterator[Claim | Refusal]:
        """The inner partitioner's answers, with claims in place of refusals of these operators."""
        for answer in self.inner.claim(program):
            if isinstance(answer, Refusal) and self._takes(answer.op, program):
                yield Claim(
                    partitioner=self.name,
                    backend=self.backend,
                    ops=frozenset({answer.op}),
                    specs=tuple(self.specs(program.options)),
                )
            else:
                yield answer

    def _takes(self, id: str, program: Program) -> bool:
        op = program.graph.op(id)
        return op.target in _ALSO and not op.scope
