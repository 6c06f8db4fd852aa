"""Partitions in which a single node computes: fill them where that costs nothing, else drop them.

Which partition a node stands in is often free: anywhere between what it reads and what reads it.
One sweep from the end of the graph moves nodes with such freedom from partitions that can spare
them into later ones with a single node.
"""

from __future__ import annotations

from bisect import bisect
from collections import Counter
from typing import TYPE_CHECKING

from torch.fx.node import _get_qualified_name  # what torch.fx compares the given names with

if TYPE_CHECKING:
    from collections.abc import Collection

    from torch.fx import Graph, Node

    from cede.fx.settled import Home

NEVER_COMPUTE = ("torch.ops.aten.view", "_operator.getitem")

ENOUGH = 2
"""What the nodes of a partition must count together."""


def weight(node: Node, non_compute_ops: Collection[str], may_stand_alone: Collection[str]) -> int:
    """What a node counts: 1 for a function call that computes, 1 more if it may stand alone.

    Args:
        node: any node; those that aren't `call_function` count 0.
        non_compute_ops: qualified names of functions that don't compute, beside `NEVER_COMPUTE`.
        may_stand_alone: qualified names of functions.
    """
    if node.op != "call_function" or not callable(node.target):
        return 0
    name = _get_qualified_name(node.target)
    return (name not in NEVER_COMPUTE and name not in non_compute_ops) + (name in may_stand_alone)


def without_singles(
    graph: Graph, home: Home, weights: dict[Node, int], picks: Collection[Node], fixed: set[Node]
) -> Home:
    """Nodes with their partitions, without partitions that count too little. O(V+E).

    Args:
        graph: its nodes stand in topological order.
        home: the partition of each node.
        weights: what each of these nodes counts.
        picks: getitems that go where their producer goes.
        fixed: nodes that stay where they are.
    """
    moved = _filled(graph, home, weights, picks, fixed)
    sums = _sums(moved, weights)
    return {node: place for node, place in moved.items() if sums[place] >= ENOUGH}


def _sums(home: Home, weights: dict[Node, int]) -> Counter[int]:
    sums = Counter[int]()
    for node, place in home.items():
        sums[place] += weights[node]
    return sums


def _filled(
    graph: Graph,
    home: Home,
    weights: dict[Node, int],
    picks: Collection[Node],
    fixed: set[Node],
) -> Home:
    moved, sums, stay = dict(home), _sums(home, weights), set(fixed)
    lonely = sorted(place for place, count in sums.items() if count == ENOUGH - 1)
    latest: dict[Node, int] = {}  # the last partition that a node could stand in or before
    end = max(sums, default=0)
    for node in reversed(graph.nodes):
        mine = moved.get(node)
        bounds = [_bound(user, mine, moved, latest, picks) for user in node.users]
        latest[node] = last = min(bounds, default=end)
        if node in picks and node in stay:
            stay.add(node.all_input_nodes[0])
        if mine is None or node in picks or node in stay:
            continue
        at = bisect(lonely, last) - 1
        if at >= 0 and lonely[at] > mine and 0 < weights[node] <= sums[mine] - ENOUGH:
            moved[node] = place = lonely.pop(at)
            sums[mine] -= weights[node]
            sums[place] += weights[node]
    for node in graph.nodes:
        if node in picks and node in moved:
            moved[node] = moved[node.all_input_nodes[0]]
    return moved


def _bound(
    user: Node, mine: int | None, moved: Home, latest: dict[Node, int], picks: Collection[Node]
) -> int:
    if user in picks or user not in moved:
        return latest[user]
    # What stands in no partition runs before the partition that reads it.
    return moved[user] - (mine is None)
