"""The way out of a set of ops and back into it, for messages."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from cede.settle.index import Feeds, Index

Edge = tuple[int, int]
"""A producer and one of its readers."""

SHOWN = 8


def way_back(
    start: int, of: Sequence[int], ops_of: Mapping[int, Sequence[int]], feeds: Feeds, whole: bool
) -> list[Edge]:
    """The shortest way that leaves a node and comes back: its edges in order, [] if there is none.

    Breadth first against the edges, O(edges between the nodes of `ops_of`).

    Args:
        start: the node.
        of: per op its node.
        ops_of: the nodes that the way may pass, with their ops.
        feeds: producers of each op.
        whole: whether a way that enters a node may leave it by any of its ops; otherwise it
            follows edges between ops only.
    """
    behind: dict[int, tuple[Edge, int | None]] = {}
    reached = _into(ops_of[start], feeds)
    at: int | None = None
    queue: list[int] = []
    turn = 0
    while True:
        for edge in reached:
            node = of[edge[0]]
            spot = node if whole else edge[0]
            if node == start:
                if at is not None:
                    return _along(edge, at, behind)
            elif node in ops_of and spot not in behind:
                behind[spot] = (edge, at)
                queue.append(spot)
        if turn == len(queue):
            return []
        at = queue[turn]
        turn += 1
        reached = _into(ops_of[at] if whole else (at,), feeds)


def _into(ops: Iterable[int], feeds: Feeds) -> Iterable[Edge]:
    return ((producer, op) for op in ops for producer in feeds[op])


def _along(edge: Edge, at: int | None, behind: dict[int, tuple[Edge, int | None]]) -> list[Edge]:
    edges = [edge]
    while at is not None:
        edge, at = behind[at]
        edges.append(edge)
    return edges


def spell(edges: Sequence[Edge], index: Index) -> str:
    """A way in words: "a -> b ~ c -> d", where ~ stands between ops that go together."""
    words: list[str] = []
    last = -1
    for producer, reader in edges:
        if producer != last:
            words.append(f" ~ {index.name(producer)}" if words else index.name(producer))
        words.append(f" -> {index.name(reader)}")
        last = reader
    if len(words) > SHOWN:
        words[SHOWN - 2 : -1] = [f" -> ... {len(words) - SHOWN + 1} more ..."]
    return "".join(words)
