"""A torch.fx graph as a contest of one backend, and its settlement as partitions."""

from __future__ import annotations

from typing import TYPE_CHECKING

from torch.fx.passes.infra.partitioner import Partition

from cede.settle import settle
from cede.types import Claim, Contest, Op, OpGraph

if TYPE_CHECKING:
    from collections.abc import Collection

    from torch.fx import Graph, Node

Home = dict["Node", int]
"""The partition of each node that has one; partitions count in an order in which they can run."""

WHO = "supported"
"""The one partitioner and backend of the contest."""


def settled(
    graph: Graph, supported: Collection[Node], picks: Collection[Node], groups: list[set[Node]]
) -> Home:
    """The fewest partitions of the supported nodes.

    Every node is an op of the contest, placeholders and the output too, as a way between two
    nodes may lead through any of them.

    Args:
        graph: its nodes stand in topological order.
        supported: what the partitions consist of, beside picks.
        picks: getitems that go where their producer goes, supported or not.
        groups: disjoint sets of nodes; the supported ones of a set share a partition unless that
            would make a cycle.
    """
    nodes = list(graph.nodes)
    ids = {node: str(i) for i, node in enumerate(nodes)}
    ops = tuple(
        Op(
            id=ids[node],
            target="getitem" if node in picks else node.op,
            inputs=tuple([ids[used] for used in node.all_input_nodes]),
        )
        for node in nodes
    )
    # The nodes of a group are claimed one by one too: that stands where the group can't.
    together = [{node for node in group if node in supported} for group in groups]
    claims = tuple(
        Claim(partitioner=WHO, backend=WHO, ops=frozenset([ids[node] for node in claimed]))
        for claimed in (*((node,) for node in supported if node not in picks), *together)
        if claimed
    )
    found = settle(Contest(graph=OpGraph(ops=ops), claims=claims, order=(WHO,)))
    return {nodes[int(op)]: i for i, given in enumerate(found.delegations) for op in given.ops}


def partitions(graph: Graph, home: Home) -> list[Partition]:
    """As torch.fx has them: the last one first, nodes in order with their place from the end."""
    made: dict[int, Partition] = {}
    order = len(graph.nodes)
    for node in graph.nodes:
        order -= 1
        if (place := home.get(node)) is not None:
            made.setdefault(place, Partition()).add_node(node, order)
    listed = [made[place] for place in sorted(made, reverse=True)]
    for number, partition in enumerate(listed):
        partition.id = number
    return listed
