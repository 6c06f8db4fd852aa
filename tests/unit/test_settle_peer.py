"""Against torch.fx: the same graphs and the same supported ops.

torch.fx's class knows one backend; several are asked one after the other, as a list of
partitioners is.
"""

from __future__ import annotations

import random
from graphlib import TopologicalSorter

import pytest
import torch
from torch.fx.passes.infra.partitioner import CapabilityBasedPartitioner
from torch.fx.passes.operator_support import OperatorSupportBase

from cede.settle import settle
from cede.types import Claim, Contest, Op, OpGraph


def combine(*args):
    return sum(args)


class Supported(OperatorSupportBase):
    def __init__(self, names: set[str]) -> None:
        self.names = names

    def is_node_supported(self, submodules, node) -> bool:
        return node.name in self.names


def proposed(feeds: list[list[int]], supported: set[int]) -> list[set[int]]:
    """The partitions that torch.fx proposes for a graph."""
    graph = torch.fx.Graph()
    given = graph.placeholder("x")
    values: list[torch.fx.Node] = []
    for i, producers in enumerate(feeds):
        args = tuple(values[p] for p in producers) or (given,)
        values.append(graph.create_node("call_function", combine, args, name=f"o{i}"))
    graph.output(tuple(values))
    peer = CapabilityBasedPartitioner(
        torch.fx.GraphModule(torch.nn.Module(), graph),
        Supported({f"o{i}" for i in supported}),
        allows_single_node_partition=True,
    )
    return [{int(node.name[1:]) for node in found.nodes} for found in peer.propose_partitions()]


def one_after_the_other(feeds: list[list[int]], keys: list[int], backends: int) -> int:
    """torch.fx asked for each backend, each time with the partitions before fused into nodes."""
    count = 0
    for key in range(backends):
        parts = proposed(feeds, {i for i, taker in enumerate(keys) if taker == key})
        count += len(parts)
        home = {i: min(part) for part in parts for i in part}
        sorter: TopologicalSorter[int] = TopologicalSorter()
        for i, producers in enumerate(feeds):
            own = home.get(i, i)
            sorter.add(own, *(home.get(p, p) for p in producers if home.get(p, p) != own))
        order = list(sorter.static_order())
        place = {node: i for i, node in enumerate(order)}
        fused: list[set[int]] = [set() for _ in order]
        for i, producers in enumerate(feeds):
            own = place[home.get(i, i)]
            fused[own] |= {place[home.get(p, p)] for p in producers} - {own}
        keys = [-1 if node in home else keys[node] for node in order]
        feeds = [sorted(producers) for producers in fused]
    return count


def random_feeds(chance: random.Random) -> list[list[int]]:
    near = chance.choice((3, 6, 20))
    return [
        sorted(chance.sample(range(max(0, i - near), i), min(i, near, chance.choice((0, 1, 2, 3)))))
        for i in range(chance.randrange(3, 60))
    ]


@pytest.mark.parametrize("backends", [1, 2, 3, 4])
def test_never_more_delegates_than_torch_fx(backends: int):
    chance = random.Random(11)
    names = tuple("abcd"[:backends])
    fewer = 0
    for _ in range(150):
        feeds, left = random_feeds(chance), chance.choice((0.1, 0.2, 0.5))
        keys = [-1 if chance.random() < left else chance.randrange(backends) for _ in feeds]
        graph = OpGraph(
            ops=tuple(
                Op(id=f"o{i}", target="aten.op", inputs=tuple(f"o{p}" for p in of) or ("x",))
                for i, of in enumerate(feeds)
            )
        )
        claims = tuple(
            Claim(partitioner=names[key], backend=names[key], ops=frozenset({f"o{i}"}))
            for i, key in enumerate(keys)
            if key >= 0
        )
        found = settle(Contest(graph=graph, claims=claims, order=names))
        assert sum(len(d.ops) for d in found.delegations) == len(claims)
        theirs = one_after_the_other(feeds, keys, backends)
        assert len(found.delegations) <= theirs
        fewer += len(found.delegations) < theirs
    assert backends == 1 or fewer > 0
