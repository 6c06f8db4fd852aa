"""Which claims go when what goes together can't be put in an order."""

from __future__ import annotations

from typing import TYPE_CHECKING

from cede.settle.nodes import components, members
from cede.settle.path import spell, way_back
from cede.types import Code, Reason

if TYPE_CHECKING:
    from collections.abc import Container, Mapping, Sequence

    from cede.settle.hold import Hold
    from cede.settle.index import Index
    from cede.settle.nodes import Tangle
    from cede.settle.path import Edge
    from cede.settle.pieces import Piece

SINGLY = 8
"""Rounds in which a tangle loses one unit; after these twice as many as in the round before."""

EFFORT = 4
"""Looking for units that aren't convex in themselves visits at most so many times all ops."""


def untangle(
    tangle: Tangle,
    pieces: Sequence[Piece],
    out: Mapping[int, Reason],
    held: Hold,
    index: Index,
    turn: int,
) -> dict[int, Reason]:
    """Numbers of the pieces to put out of the contest, with the way that makes the cycle.

    In each tangle (a strongly connected component of the contracted graph) these are all units
    that aren't convex by themselves; if there is none, the unit of the last partitioner, of these
    the smallest, of these the last. Of a unit joined from several claims the first claim stays.

    Args:
        tangle: the contracted graph.
        pieces: in the order in which they were considered.
        out: numbers of those that are out already.
        held: the standing.
        index: the graph.
        turn: how many times this was asked before.
    """
    of, found = tangle.nodes.of, components(tangle.nodes.feeds, tangle.rest)
    ops_of = members(of, found)
    loose = breakable(pieces, out, held, of, ops_of)
    leaving: dict[int, Reason] = {}
    effort = EFFORT * index.size + 1000
    for tied in found:
        around = {node: ops_of[node] for node in tied}
        units = [node for node in tied if node in loose]
        afford = max(0, effort) // len(tied)
        effort -= len(tied) * len(units)
        bent = _bent(units[:afford], of, around, index)
        for node, edges in bent.items():
            leaving.update(_put_out(loose[node], _not_convex(edges, index)))
        if not bent:
            units.sort(key=lambda u: (-pieces[loose[u][0]].rank, len(ops_of[u]), -ops_of[u][0]))
            for node in units[: 1 << max(0, turn - SINGLY)]:
                edges = way_back(node, of, around, index.feeds, True)
                leaving.update(_put_out(loose[node], _cycle(edges, index)))
    return leaving


def _bent(
    units: list[int], of: Sequence[int], around: Mapping[int, list[int]], index: Index
) -> dict[int, list[Edge]]:
    """Units that aren't convex by themselves, each with a way out and back."""
    ways = ((node, way_back(node, of, around, index.feeds, False)) for node in units)
    return {node: edges for node, edges in ways if edges}


def breakable(
    pieces: Sequence[Piece],
    out: Container[int],
    held: Hold,
    of: Sequence[int],
    nodes: Container[int],
) -> dict[int, list[int]]:
    """For each of these nodes the numbers of the pieces that tie several ops together in it."""
    found: dict[int, list[int]] = {}
    for number, piece in enumerate(pieces):
        if not piece.solid and number not in out and number not in held.lost:
            node = of[piece.core[0]]
            if node in nodes:
                found.setdefault(node, []).append(number)
    return found


def _put_out(numbers: list[int], reason: Reason) -> dict[int, Reason]:
    return dict.fromkeys(numbers[1:] or numbers, reason)


def _not_convex(edges: list[Edge], index: Index) -> Reason:
    return Reason(
        code=Code.NOT_CONVEX,
        detail=f"ops claimed together depend on one another through ops outside:"
        f" {spell(edges, index)}",
    )


def _cycle(edges: list[Edge], index: Index) -> Reason:
    return Reason(
        code=Code.CYCLE,
        detail=f"with other claims it would wait for itself: {spell(edges, index)}"
        " (~ stands between ops claimed together)",
    )
