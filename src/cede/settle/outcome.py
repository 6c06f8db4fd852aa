"""The settlement as records: delegations in execution order, and a reason for every lost claim."""

from __future__ import annotations

from typing import TYPE_CHECKING

from cede.settle.order import execution_order
from cede.types import Code, Delegation, Loss, Part, Reason

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from cede.settle.hold import Hold
    from cede.settle.index import Index
    from cede.settle.pieces import Piece


def delegations(
    index: Index, held: Hold, groups: list[int], order: Sequence[str]
) -> tuple[Delegation, ...]:
    """The records of the delegates, ids and all.

    Args:
        index: the graph.
        held: who has which op.
        groups: per op its delegate, -1 for none.
        order: partitioner names by rank.
    """
    parts: dict[int, dict[int, list[int]]] = {}
    for op, group in enumerate(groups):
        if group >= 0:
            parts.setdefault(group, {}).setdefault(held.owner[op], []).append(op)
    made = []
    for number, group in enumerate(execution_order(index, groups)):
        backend, specs = held.takers[held.key[next(iter(parts[group].values()))[0]]]
        made.append(
            Delegation(
                id=f"d{number}",
                backend=backend,
                parts=tuple(
                    Part(partitioner=order[rank], ops=index.names(ops))
                    for rank, ops in sorted(parts[group].items())
                ),
                specs=specs,
            )
        )
    return tuple(made)


def losses(
    index: Index,
    held: Hold,
    pieces: Sequence[Piece],
    out: Mapping[int, Reason],
    order: Sequence[str],
) -> tuple[Loss, ...]:
    """One loss for each pair of claimed op and partitioner that is in no part, in graph order."""
    found: dict[int, tuple[str, Reason]] = {}
    count, owner = len(order), held.owner
    for number, piece in enumerate(pieces):
        rank = piece.rank
        reason = out.get(number)
        if reason is None and number in held.lost:
            reason = _outbid(held.lost[number], piece, held, index, order)
        for op in piece.core:
            if owner[op] != rank and op * count + rank not in found:
                why = reason or _shared(op, piece, held, index, order)
                found[op * count + rank] = (piece.claim.backend, why)
        for pick in piece.picks:
            if owner[pick] != rank and pick * count + rank not in found:
                why = reason or _pick(pick, held, index, order)
                found[pick * count + rank] = (piece.claim.backend, why)
    return tuple(
        Loss(
            partitioner=order[place % count],
            backend=found[place][0],
            op=index.name(place // count),
            reason=found[place][1],
        )
        for place in sorted(found)
    )


def _winner(op: int, held: Hold, order: Sequence[str]) -> str:
    return f"partitioner {order[held.owner[op]]!r} for {held.takers[held.key[op]][0]!r}"


def _outbid(rival: int, piece: Piece, held: Hold, index: Index, order: Sequence[str]) -> Reason:
    name = index.name(rival)
    if held.owner[rival] < 0:
        detail = f"a claim that came before had {name}, and then fell to its backend's limits"
    elif held.owner[rival] == piece.rank:
        detail = f"an earlier claim of the same partitioner with other compile specs has {name}"
    else:
        detail = f"{_winner(rival, held, order)} has {name}"
    if len(piece.core) > 1:
        detail += ", and the ops of this claim go together or not at all"
    return Reason(code=Code.OUTBID, detail=detail)


def _shared(op: int, piece: Piece, held: Hold, index: Index, order: Sequence[str]) -> Reason:
    return Reason(
        code=Code.OUTBID,
        detail=f"{_winner(op, held, order)} has {index.name(op)}; both are in one delegate",
    )


def _pick(pick: int, held: Hold, index: Index, order: Sequence[str]) -> Reason:
    host = index.host[pick]
    if held.owner[host] >= 0:
        return Reason(
            code=Code.OUTBID,
            detail=f"getitem goes with its producer {index.name(host)}, which"
            f" {_winner(host, held, order)} has",
        )
    return Reason(
        code=Code.NOT_CONVEX,
        detail=f"getitem goes with its producer {index.name(host)}, which is not taken",
    )
