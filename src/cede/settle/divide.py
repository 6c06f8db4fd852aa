"""Taken nodes to delegates, scope by scope."""

from __future__ import annotations

from typing import TYPE_CHECKING

from cede.settle.label import label
from cede.settle.wave import wave

if TYPE_CHECKING:
    from cede.settle.index import Feeds, Index
    from cede.settle.nodes import Nodes


def divide(nodes: Nodes) -> list[int]:
    """The delegate of every op, -1 for ops not taken.

    A delegate stays in one scope. Where one key takes nodes of a scope, its delegates are the
    fewest possible (`label`), where several do, few (`wave`).
    """
    members: dict[int, list[int]] = {}
    for node, scope in enumerate(nodes.scopes):
        members.setdefault(scope, []).append(node)
    groups = [-1] * len(nodes.keys)
    given = 0
    for own in members.values():
        if len(members) == 1:
            found = _one_scope(nodes.feeds, nodes.keys)
        else:
            found = _one_scope(*_local(nodes, own))
        highest = -1
        for node, group in zip(own, found, strict=True):
            if group >= 0:
                groups[node] = given + group
                highest = max(highest, group)
        given += highest + 1
    return [groups[node] for node in nodes.of]


def _local(nodes: Nodes, own: list[int]) -> tuple[Feeds, list[int]]:
    place = {node: i for i, node in enumerate(own)}
    feeds = [[place[p] for p in nodes.feeds[node]] for node in own]
    return feeds, [nodes.keys[node] for node in own]


def _one_scope(feeds: Feeds, keys: list[int]) -> list[int]:
    used = sorted(set(keys) - {-1})
    if len(used) < 2:
        return label(feeds, keys, used[0]) if used else keys
    dense = {key: i for i, key in enumerate(used)}
    dense[-1] = -1
    return wave(feeds, [dense[key] for key in keys], len(used))


def split_connected(index: Index, groups: list[int], split: set[int]) -> list[int]:
    """The delegate of every op once some are split into their weakly connected components.

    No way leads from one component to another through other delegates, or the delegate would not
    have been convex: the result is as acyclic as what is given.

    Args:
        index: the graph.
        groups: per op its delegate, -1 for none.
        split: the delegates to split.
    """
    parent = list(range(index.size))

    def root(op: int) -> int:
        while parent[op] != op:
            parent[op] = op = parent[parent[op]]
        return op

    for op, producers in enumerate(index.feeds):
        if groups[op] in split:
            for other in (*producers, *index.inside.get(op, ())):
                if groups[other] == groups[op]:
                    parent[root(other)] = root(op)
    numbers: dict[tuple[int, int], int] = {}
    return [
        -1 if g < 0 else numbers.setdefault((g, root(op) if g in split else -1), len(numbers))
        for op, g in enumerate(groups)
    ]
