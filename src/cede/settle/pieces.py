"""Claims as pieces: the smallest sets of ops that go together or not at all."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import groupby
from typing import TYPE_CHECKING

from cede.errors import PluginError
from cede.types import Code, Reason

if TYPE_CHECKING:
    from collections.abc import Iterable

    from cede.settle.index import Index
    from cede.types import Claim, Contest


@dataclass(frozen=True, slots=True)
class Piece:
    """A claim, or the part of a divisible one that can't be divided further.

    Attributes:
        claim: where it comes from.
        rank: place of its partitioner in the contest's order.
        core: its ops without getitems, ascending.
        picks: the getitems of the claim that belong to `core`, or that stand without a producer.
        solid: one op of its scope, be it with its branches: it is convex in any company.
        fault: why it can't be had at all, else None.
    """

    claim: Claim
    rank: int
    core: tuple[int, ...]
    picks: tuple[int, ...] = ()
    solid: bool = True
    fault: Reason | None = None

    def tie(self) -> tuple[object, ...]:
        """What decides between pieces of one partitioner that start at one op."""
        claim = self.claim
        return self.core, self.picks, claim.divisible, claim.backend, claim.specs


def cut(contest: Contest, index: Index) -> list[Piece]:
    """All pieces in the order in which they are considered, whatever the order of the claims.

    That is: by their partitioner's place in `contest.order`, then by their first op.

    Raises:
        PluginError: a claim by a partitioner that is not in the order, or of an unknown op.
    """
    ranks: dict[str, int] = {}
    for name in contest.order:
        ranks.setdefault(name, len(ranks))
    pieces: list[Piece] = []
    for claim in contest.claims:
        ops = _places(claim, ranks, index)
        if len(ops) == 1 and ops[0] not in index.host and ops[0] not in index.inside:
            pieces.append(Piece(claim, ranks[claim.partitioner], (ops[0],)))
        elif claim.divisible:
            pieces.extend(_divided(claim, ranks[claim.partitioner], ops, index))
        elif ops:
            pieces.append(_whole(claim, ranks[claim.partitioner], ops, index))
    return _ordered(pieces, index.size)


def _places(claim: Claim, ranks: dict[str, int], index: Index) -> list[int]:
    if claim.partitioner not in ranks:
        raise PluginError(
            f"a claim comes from partitioner {claim.partitioner!r}, which is not in the order"
            f" ({', '.join(ranks) or 'empty'}); add it there or drop its claims"
        )
    try:
        return sorted([index.place[op] for op in claim.ops])
    except KeyError:
        unknown = min(op for op in claim.ops if op not in index.place)
        raise PluginError(
            f"partitioner {claim.partitioner!r} claims op {unknown!r}, which the graph does not"
            f" have; claim ids of `program.graph.ops` only"
        ) from None


def _ordered(pieces: list[Piece], size: int) -> list[Piece]:
    def start(piece: Piece) -> int:
        return piece.rank * size + (piece.core or piece.picks)[0]

    pieces.sort(key=start)
    made: list[Piece] = []
    for _, same in groupby(pieces, start):
        tied = list(same)
        made += sorted(tied, key=Piece.tie) if len(tied) > 1 else tied
    return made


def _divided(claim: Claim, rank: int, ops: list[int], index: Index) -> Iterable[Piece]:
    claimed, flows = set(ops), _Flows(ops, index)
    picks: dict[int, list[int]] = {}
    for op in ops:
        if (host := index.host.get(op)) is not None:
            if host in claimed:
                picks.setdefault(host, []).append(op)
            else:
                yield Piece(claim, rank, (), (op,))
    for op in ops:
        if op in index.host:
            continue
        own = tuple(picks.get(op, ()))
        core = (op,) if op not in index.inside else (*sorted(flows.held.get(op, ())), op)
        yield Piece(claim, rank, core, own, True, flows.fault(op))


def _whole(claim: Claim, rank: int, ops: list[int], index: Index) -> Piece:
    flows = _Flows(ops, index)
    core = tuple([op for op in ops if op not in index.host])
    picks = tuple([op for op in ops if op in index.host])
    fault = next((found for op in core if (found := flows.fault(op))), None)
    nested = {op for held in flows.held.values() for op in held}
    outer = [op for op in core if op not in nested]
    if fault is None and len({index.scopes[op] for op in outer}) > 1:
        first, other = outer[0], next(o for o in outer if index.scopes[o] != index.scopes[outer[0]])
        fault = Reason(
            code=Code.CONTROL_FLOW,
            detail=f"the claim spans {_scope(index, first)} (op {index.name(first)}) and"
            f" {_scope(index, other)} (op {index.name(other)}) without the control-flow op"
            " that joins them",
        )
    return Piece(claim, rank, core, picks, len(outer) <= 1, fault)


def _scope(index: Index, op: int) -> str:
    name = index.graph.ops[op].scope
    return f"branch {name}" if name else "the top of the program"


class _Flows:
    """The control-flow ops of one claim: which hold all their branches, and what others lack.

    A getitem need not be claimed where its producer is.
    """

    def __init__(self, ops: list[int], index: Index) -> None:
        self._index = index
        self._lacks: dict[int, int] = {}
        self.held: dict[int, list[int]] = {}
        flows = [op for op in ops if op in index.inside]
        claimed = set(ops) if flows else set()
        for flow in flows:  # inner ones stand before outer ones
            held: list[int] = []
            for op in index.inside[flow]:
                if op in self._lacks or index.host.get(op, op) not in claimed:
                    self._lacks[flow] = self._lacks.get(op, op)
                    break
                held.append(op)
                held.extend(self.held.get(op, ()))
            else:
                self.held[flow] = [op for op in held if op not in index.host]

    def fault(self, op: int) -> Reason | None:
        """Why this op of the claim can't be had, None if it can."""
        if op not in self._lacks:
            return None
        lacking = self._index.graph.ops[self._lacks[op]]
        return Reason(
            code=Code.CONTROL_FLOW,
            detail=f"{self._index.name(op)} goes with all ops of its branches, and the claim lacks"
            f" {lacking.id} of branch {lacking.scope}",
        )
