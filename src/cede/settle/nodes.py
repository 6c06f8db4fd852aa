"""The contracted graph: what goes together is one node."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from cede.settle.index import readers

if TYPE_CHECKING:
    from cede.settle.hold import Hold
    from cede.settle.index import Feeds, Index


@dataclass(frozen=True, slots=True)
class Nodes:
    """A contracted graph.

    Attributes:
        of: per op its node.
        feeds: per node the nodes it reads.
        keys: per node its taker, -1 for nobody.
        scopes: per node its scope's number.
    """

    of: list[int]
    feeds: Feeds
    keys: list[int]
    scopes: list[int]


@dataclass(frozen=True, slots=True)
class Tangle:
    """A graph that can't be put in order.

    Attributes:
        nodes: the contracted graph, in no order.
        rest: nodes on cycles, or behind them.
    """

    nodes: Nodes
    rest: list[int]


def contract(index: Index, held: Hold) -> Nodes | Tangle:
    """Contract the units, and number the nodes so that producers come first.

    O(V+E): Kahn's algorithm. Where nothing was joined the graph's own order serves.
    """
    if not held.joined:
        return Nodes(list(range(index.size)), index.feeds, held.key, index.scopes)
    numbers: dict[int, int] = {}
    of = [numbers.setdefault(held.unit(op), len(numbers)) for op in range(index.size)]
    nodes = quotient(of, len(numbers), index.feeds)
    keys, scopes = [-1] * len(nodes), [0] * len(nodes)
    for op, node in enumerate(of):  # the last op of a unit is of its outermost scope
        keys[node], scopes[node] = held.key[op], index.scopes[op]
    order = kahn(nodes)
    made = Nodes(of, nodes, keys, scopes)
    if len(order) < len(nodes):
        seen = set(order)
        return Tangle(made, [node for node in range(len(nodes)) if node not in seen])
    return _renumbered(made, order)


def _renumbered(nodes: Nodes, order: list[int]) -> Nodes:
    place = [0] * len(order)
    for i, node in enumerate(order):
        place[node] = i
    return Nodes(
        [place[node] for node in nodes.of],
        [[place[p] for p in nodes.feeds[node]] for node in order],
        [nodes.keys[node] for node in order],
        [nodes.scopes[node] for node in order],
    )


def quotient(of: list[int], count: int, feeds: Feeds) -> Feeds:
    """Edges between the classes that `of` sorts nodes into, one per edge between their nodes."""
    out: Feeds = [[] for _ in range(count)]
    for node, producers in enumerate(feeds):
        own = of[node]
        into = out[own]
        for producer in producers:
            if (other := of[producer]) != own:
                into.append(other)
    return out


def kahn(feeds: Feeds) -> list[int]:
    """A topological order; shorter than the graph if there is a cycle."""
    waiting = [len(producers) for producers in feeds]
    reads = readers(feeds)
    order = [node for node, count in enumerate(waiting) if not count]
    for node in order:
        for reader in reads[node]:
            waiting[reader] -= 1
            if not waiting[reader]:
                order.append(reader)
    return order


def components(feeds: dict[int, list[int]]) -> list[list[int]]:
    """Strongly connected components of two or more nodes, without recursion (S. R. Kosaraju).

    Args:
        feeds: part of a graph; edges from nodes that it lacks don't count.
    """
    within = sorted(feeds)
    place = {node: i for i, node in enumerate(within)}
    inner = [[place[p] for p in feeds[node] if p in place] for node in within]
    seen: set[int] = set()
    finished = [node for start in range(len(inner)) for node in _postorder(inner, start, seen)]
    back = readers(inner)
    seen.clear()
    found = [_postorder(back, start, seen) for start in reversed(finished)]
    return sorted(sorted(within[i] for i in tied) for tied in found if len(tied) > 1)


def _postorder(graph: Feeds, start: int, seen: set[int]) -> list[int]:
    if start in seen:
        return []
    seen.add(start)
    done: list[int] = []
    stack = [(start, iter(graph[start]))]
    while stack:
        node, left = stack[-1]
        following = next((other for other in left if other not in seen), -1)
        if following < 0:
            done.append(node)
            stack.pop()
        else:
            seen.add(following)
            stack.append((following, iter(graph[following])))
    return done


def members(of: list[int], found: list[list[int]]) -> dict[int, list[int]]:
    """The ops of each node of these components.

    Args:
        of: per op its node.
        found: components, as lists of nodes.
    """
    ops_of: dict[int, list[int]] = {node: [] for tied in found for node in tied}
    for op, node in enumerate(of):
        if node in ops_of:
            ops_of[node].append(op)
    return ops_of
