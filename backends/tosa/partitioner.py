"""Arm's stock partitioners adopted: TOSA's own, and those of the targets that compile from TOSA."""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import islice
from typing import TYPE_CHECKING, Any

from cede.partitioners.adopt import Adopted
from cede.partitioners.adopt.join import joined
from cede.types import Claim, Code, Reason, Refusal

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from cede.types import Keep, OpGraph, Program

# What the compiler may remove: a delegate of nothing else would be empty.
_LIGHT = (
    "alias_copy",
    "as_strided_copy",
    "clone",
    "dequantize_per",
    "detach_copy",
    "dim_order_copy",
    "expand_copy",
    "flip",
    "permute_copy",
    "quantize_per",
    "squeeze_copy",
    "view_copy",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class TosaPartitioner:
    """A stock partitioner of Arm's, asked with its groups whole: what it takes depends on them.

    Its groups are then cut where the compiler can cut them.

    Attributes:
        name: name of the partitioner.
        backend: name of the backend that it claims for.
        delegate_id: the backend id that it tags for.
        make: builds the stock partitioner from the backend's options.
        integers: whether with these options a delegate has integer borders only.
    """

    name: str
    backend: str
    delegate_id: str
    make: Callable[[Any], Any]
    integers: Callable[[Any], bool]

    @property
    def _adopted(self) -> Adopted:
        return Adopted(
            name=self.name,
            backend=self.backend,
            delegate_id=self.delegate_id,
            make=self.make,
            grouped=True,
        )

    def keeps(self, program: Program) -> Keep:
        """What the stock partitioner wants whole."""
        return self._adopted.keeps(program)

    def claim(self, program: Program) -> Iterator[Claim | Refusal]:
        """One claim per piece that compiles on its own, a refusal for every other op."""
        for answer in self._adopted.claim(program):
            if isinstance(answer, Refusal):
                yield self._with_border(answer, program)
            else:
                yield from self._pieces(answer, program)

    def _with_border(self, refusal: Refusal, program: Program) -> Refusal:
        """The reason for what the stock partitioner takes off its groups without a word."""
        op = program.graph.op(refusal.op)
        silent = refusal.reason.code is Code.UNKNOWN_OP and "quantize_per" in op.target
        if not silent or not self.integers(program.options):
            return refusal
        reason = Reason(
            code=Code.QUANT_SCHEME,
            detail="lies between floats and integers: a delegate of integers ends beside it",
        )
        return replace(refusal, reason=reason)

    def _pieces(self, claim: Claim, program: Program) -> list[Claim]:
        graph = program.graph
        pieces = [
            replace(
                claim,
                ops=frozenset({op}),
                marks=tuple(mark for mark in claim.marks if mark[0] == op),
                divisible=False,
            )
            for op in claim.ops
        ]
        if self.integers(program.options):
            pieces = joined(pieces, _float_edges(claim, graph), graph)
        while groups := list(_empty(pieces, claim, graph)):
            pieces = joined(pieces, groups, graph)
        return pieces


def _float_edges(claim: Claim, graph: OpGraph) -> Iterator[tuple[str, str]]:
    for id in claim.ops:
        for used in graph.op(id).inputs:
            fact = graph.fact(used)
            if used in claim.ops and fact is not None and "float" in fact.dtype:
                yield used, id


def _empty(pieces: list[Claim], claim: Claim, graph: OpGraph) -> Iterator[tuple[str, str]]:
    """For every piece that may compile to nothing: one of its ops, and an op beside it."""
    for piece in pieces:
        if all(any(name in graph.op(id).kind for name in _LIGHT) for id in piece.ops):
            beside = (
                (id, other)
                for id in sorted(piece.ops, key=graph.position)
                for other in (*graph.op(id).inputs, *graph.users(id))
                if other in claim.ops and other not in piece.ops
            )
            yield from islice(beside, 1)
