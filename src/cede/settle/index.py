"""The graph as ints: what every later step walks over instead of names."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

    from cede.types import OpGraph

Feeds = list[list[int]]
"""For each node the nodes it reads, an entry per edge."""


@dataclass(frozen=True, slots=True)
class Index:
    """An `OpGraph` with positions for ids.

    Attributes:
        graph: the facts.
        place: position of each op by id.
        feeds: per op the producers in its own scope.
        scopes: per op a number for its scope, in order of appearance.
        host: a getitem's producer: the op whose output it picks, through nested getitems.
        inside: per control-flow op the ops of its branches, not those of branches inside them.
    """

    graph: OpGraph
    place: dict[str, int]
    feeds: Feeds
    scopes: list[int]
    host: dict[int, int]
    inside: dict[int, list[int]]

    @property
    def size(self) -> int:
        """The number of ops."""
        return len(self.feeds)

    def name(self, op: int) -> str:
        """The id of an op."""
        return self.graph.ops[op].id

    def names(self, ops: Sequence[int]) -> tuple[str, ...]:
        """The ids of several ops."""
        given = self.graph.ops
        return tuple([given[op].id for op in ops])


def index_graph(graph: OpGraph) -> Index:
    """Read the graph once. O(V+E) time and memory."""
    place = {op.id: i for i, op in enumerate(graph.ops)}
    numbers: dict[str, int] = {}
    scopes = [numbers.setdefault(op.scope, len(numbers)) for op in graph.ops]
    feeds: Feeds = []
    flows: list[int] = []
    picks: list[int] = []
    find = place.get
    for i, op in enumerate(graph.ops):
        feeds.append([found for used in op.inputs if (found := find(used)) is not None])
        if op.branches:
            flows.append(i)
        elif op.target == "getitem":
            picks.append(i)
    if len(numbers) > 1:
        for i, producers in enumerate(feeds):
            feeds[i] = [p for p in producers if scopes[p] == scopes[i]]
    host: dict[int, int] = {}
    for i in picks:
        if feeds[i]:
            host[i] = host.get(feeds[i][0], feeds[i][0])
    return Index(graph, place, feeds, scopes, host, _inside(graph, flows))


def _inside(graph: OpGraph, flows: list[int]) -> dict[int, list[int]]:
    wanted: dict[str, list[int]] = {name: [] for i in flows for name in graph.ops[i].branches}
    if wanted:
        for i, op in enumerate(graph.ops):
            if op.scope in wanted:
                wanted[op.scope].append(i)
    return {i: [op for name in graph.ops[i].branches for op in wanted[name]] for i in flows}


def readers(feeds: Feeds) -> Feeds:
    """The edges turned round: for each node the nodes that read it."""
    out: Feeds = [[] for _ in feeds]
    for node, producers in enumerate(feeds):
        for producer in producers:
            out[producer].append(node)
    return out
