"""Rounds of the contest: pieces that can't stay leave, until what is left stands."""

from __future__ import annotations

from typing import TYPE_CHECKING

from cede.settle.divide import divide, split_connected
from cede.settle.hold import hold
from cede.settle.limits import over_limits
from cede.settle.measure import measured, split_big
from cede.settle.nodes import Tangle, contract
from cede.settle.sink import sunk
from cede.settle.untangle import breakable, untangle
from cede.types import Code, Reason

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from cede.settle.hold import Hold
    from cede.settle.index import Index
    from cede.settle.pieces import Piece
    from cede.types import Contest

REOFFERS = 8
"""How often ops of delegates that fall to limits are offered to the next claim."""


def play(
    contest: Contest,
    index: Index,
    pieces: Sequence[Piece],
    barred: Mapping[int, Reason] | None = None,
) -> tuple[Hold, list[int], dict[int, Reason]]:
    """Who holds which op in the end, the delegate of every op (-1: none), and pieces that left.

    Args:
        contest: its limits and its backends that take connected delegates only.
        index: the graph.
        pieces: in the order in which they are considered.
        barred: numbers of pieces that are left out from the start.
    """
    out = dict(barred or {})
    out.update({number: piece.fault for number, piece in enumerate(pieces) if piece.fault})
    turn = reoffers = 0
    while True:
        held = hold(pieces, out, index)
        nodes = contract(index, held)
        if isinstance(nodes, Tangle):
            out.update(untangle(nodes, pieces, out, held, index, turn))
            turn += 1
            continue
        groups = divide(nodes)
        apart, groups = _connected(contest, index, pieces, out, held, groups)
        if not apart and (cut := split_big(contest, index, held, nodes.of, groups)) != groups:
            apart, groups = _connected(contest, index, pieces, out, held, cut)
        if apart:
            out.update(apart)
            continue
        sizes = measured(contest, index, groups)
        dropped = over_limits(contest, index, held, groups, sizes)
        if not dropped:
            return held, sunk(contest, index, held, groups), out
        rivals = _drop(dropped, pieces, out, held, groups)
        if not rivals or reoffers == REOFFERS:
            return held, groups, out
        reoffers += 1


def _connected(
    contest: Contest,
    index: Index,
    pieces: Sequence[Piece],
    out: dict[int, Reason],
    held: Hold,
    groups: list[int],
) -> tuple[dict[int, Reason], list[int]]:
    """Numbers of claims that fall apart, and the delegates after splitting."""
    keys = {key for key, (name, _) in enumerate(held.takers) if name in contest.connected}
    split = {group for group, key in zip(groups, held.key, strict=True) if key in keys}
    split.discard(-1)
    if not split:
        return {}, groups
    parts = split_connected(index, groups, split)
    apart: dict[int, tuple[int, int]] = {}
    for op, part in enumerate(parts):
        unit = held.unit(op)
        if part >= 0 and parts[unit] != part:
            apart.setdefault(unit, (unit, op))
    if not apart:
        return {}, parts
    units = [held.unit(op) for op in range(index.size)]
    leaving: dict[int, Reason] = {}
    for unit, numbers in breakable(pieces, out, held, units, apart).items():
        one, other = (index.name(op) for op in apart[unit])
        reason = Reason(
            code=Code.POLICY,
            detail=f"{held.takers[held.key[unit]][0]} takes connected delegates only, and nothing"
            f" connects {one} with {other}",
        )
        leaving.update(dict.fromkeys(numbers[1:] or numbers, reason))
    return leaving, parts


def _drop(
    dropped: dict[int, Reason],
    pieces: Sequence[Piece],
    out: dict[int, Reason],
    held: Hold,
    groups: list[int],
) -> bool:
    """Put the claims of these delegates out; whether another claim wanted one of their ops."""
    rivals = any(groups[op] in dropped for n in held.lost for op in pieces[n].core)
    for number, piece in enumerate(pieces):
        if piece.core and number not in out and number not in held.lost:
            if (reason := dropped.get(groups[piece.core[0]])) is not None:
                out[number] = reason
    for op, group in enumerate(groups):
        if group in dropped:
            groups[op] = held.key[op] = held.owner[op] = -1
    return rivals
