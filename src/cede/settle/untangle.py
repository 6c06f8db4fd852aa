"""Which claims go when what goes together can't be put in an order."""

from __future__ import annotations

from typing import TYPE_CHECKING

from cede.settle.nodes import components, members
from cede.settle.path import spell, way_back
from cede.types import Code, Reason

if TYPE_CHECKING:
    from collections.abc import Container, Iterable, Mapping, Sequence

    from cede.settle.hold import Hold
    from cede.settle.index import Index
    from cede.settle.nodes import Tangle
    from cede.settle.pieces import Piece

SINGLY = 8
"""Steps in which a knot loses one unit; after these twice as many as in the step before."""

EFFORT = 4
"""Looking for units that aren't convex in themselves visits at most so many times all ops."""

Knot = dict[int, list[int]]
"""A strongly connected component of the contracted graph: its nodes with their ops."""


def untangle(
    tangle: Tangle,
    pieces: Sequence[Piece],
    out: Mapping[int, Reason],
    held: Hold,
    index: Index,
    turn: int,
) -> dict[int, Reason]:
    """Numbers of the pieces to put out of the contest, with the way that makes the cycle.

    In each knot these are all units that aren't convex by themselves; if there is none, the unit
    of the last partitioner, of these the smallest, of these the last; and so on in the knots that
    are left without them. Of a unit joined from several claims the first claim stays.

    Args:
        tangle: the contracted graph.
        pieces: in the order in which they were considered.
        out: numbers of those that are out already.
        held: the standing.
        index: the graph.
        turn: how many times this was asked before.
    """
    of = list(tangle.nodes.of)
    found = components({node: tangle.nodes.feeds[node] for node in tangle.rest})
    ops_of, leaving = members(of, found), dict[int, Reason]()
    loose = breakable(pieces, out, held, of, ops_of)
    knots = [({node: ops_of[node] for node in tied}, turn) for tied in found]
    effort = EFFORT * index.size + 1000
    while knots:
        knot, step = knots.pop()
        units = [node for node in knot if node in loose]
        units.sort(key=lambda u: (-pieces[loose[u][0]].rank, len(ops_of[u]), -ops_of[u][0]))
        size = sum(map(len, knot.values()))
        last = units[: 1 << max(0, step - SINGLY)]
        faults = _bent(units[: effort // size], of, knot, index) or _last(last, of, knot, index)
        effort = max(0, effort - size * len(units))
        for node, reason in faults.items():
            leaving.update(dict.fromkeys(loose[node][1:] or loose[node], reason))
        knots.extend((left, step + 1) for left in _without(faults, of, knot, index))
    return leaving


def _without(units: Iterable[int], of: list[int], knot: Knot, index: Index) -> list[Knot]:
    """What is left of a knot when these units come apart; their ops become nodes of their own."""
    left = dict(knot)
    for unit in units:
        for op in left.pop(unit):
            of[op] = ~op
            left[~op] = [op]
    feeds = {
        node: [of[p] for op in ops for p in index.feeds[op] if of[p] != node and of[p] in left]
        for node, ops in left.items()
    }
    return [{node: left[node] for node in tied} for tied in components(feeds)]


def _bent(units: list[int], of: list[int], knot: Knot, index: Index) -> dict[int, Reason]:
    """Units that aren't convex by themselves."""
    ways = ((node, way_back(node, of, knot, index.feeds, False)) for node in units)
    return {
        node: Reason(
            code=Code.NOT_CONVEX,
            detail=f"ops claimed together depend on one another through ops outside:"
            f" {spell(edges, index)}",
        )
        for node, edges in ways
        if edges
    }


def _last(units: list[int], of: list[int], knot: Knot, index: Index) -> dict[int, Reason]:
    """Units that close a cycle with others."""
    ways = ((node, way_back(node, of, knot, index.feeds, True)) for node in units)
    return {
        node: Reason(
            code=Code.CYCLE,
            detail=f"with other claims it would wait for itself: {spell(edges, index)}"
            " (~ stands between ops claimed together)",
        )
        for node, edges in ways
    }


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
