"""torch.fx graphs for the tests of `cede.fx`: random ones, and what they are made of."""

from __future__ import annotations

import operator
from graphlib import CycleError, TopologicalSorter
from typing import Any

import torch
from hypothesis import strategies as st
from torch.fx.passes.utils.fuser_utils import validate_partition


def mix(*xs: torch.Tensor) -> torch.Tensor:
    return torch.stack(xs).sum(0) * 0.5 + 1


def pair(x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    return x + 1, x * 2


def nested(x: torch.Tensor) -> tuple[tuple[torch.Tensor, torch.Tensor], torch.Tensor]:
    return (x - 1, x * 3), x + 2


def total(both: tuple[torch.Tensor, torch.Tensor]) -> torch.Tensor:
    return both[0] + both[1]


class Root(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.act = torch.nn.Tanh()
        self.weight = torch.nn.Parameter(torch.linspace(-1, 1, 3))


class Supports:
    """An operator support that knows names; it notes what it is asked."""

    def __init__(self, *names: str) -> None:
        self.names = set(names)
        self.asked: list[str] = []

    def is_node_supported(self, submodules: Any, node: torch.fx.Node) -> bool:
        assert set(submodules) == set(dict(node.graph.owning_module.named_modules()))
        self.asked.append(node.name)
        return node.name in self.names


Made = tuple[torch.fx.GraphModule, set[str]]

MAKERS = ("mix", "mix", "mix", "act", "pair", "nested", "pick", "pick", "total", "weight")


@st.composite
def graphs(draw: st.DrawFn, largest: int = 18) -> Made:
    """A graph that can be run on a vector, and the names of its supported nodes."""
    graph = torch.fx.Graph()
    kinds: dict[str, list[torch.fx.Node]] = {
        "tensor": [graph.placeholder("x")], "pair": [], "nested": [],
    }  # fmt: skip

    def one_of(kind: str) -> torch.fx.Node:
        return draw(st.sampled_from(kinds[kind][-5:]))

    for _ in range(draw(st.integers(2, largest))):
        maker = draw(st.sampled_from(MAKERS))
        if maker == "act":
            kinds["tensor"].append(graph.call_module("act", (one_of("tensor"),)))
        elif maker == "weight":
            kinds["tensor"].append(graph.get_attr("weight"))
        elif maker in ("pair", "nested"):
            function = pair if maker == "pair" else nested
            kinds[maker].append(graph.call_function(function, (one_of("tensor"),)))
        elif maker == "total" and kinds["pair"]:
            kinds["tensor"].append(graph.call_function(total, (one_of("pair"),)))
        elif maker == "pick" and kinds["nested"] and draw(st.booleans()):
            place = draw(st.integers(0, 1))
            made = graph.call_function(operator.getitem, (one_of("nested"), place))
            kinds["tensor" if place else "pair"].append(made)
        elif maker == "pick" and kinds["pair"]:
            made = graph.call_function(operator.getitem, (one_of("pair"), draw(st.integers(0, 1))))
            kinds["tensor"].append(made)
        else:
            few = draw(st.integers(1, 3))
            kinds["tensor"].append(
                graph.call_function(mix, tuple(one_of("tensor") for _ in range(few)))
            )
    made = [node for node in graph.nodes if node.op != "placeholder"]
    seen = draw(st.lists(st.sampled_from(made), max_size=4, unique=True))
    graph.output((*seen, made[-1]))
    left = draw(st.sampled_from((0.1, 0.3, 0.6)))
    supported = {node.name for node in made if draw(st.floats(0, 1)) > left}
    return torch.fx.GraphModule(Root(), graph), supported


def ladder(*edges: tuple[int, int], size: int) -> tuple[torch.fx.GraphModule, list[torch.fx.Node]]:
    """Nodes n0, n1, ... that read each other along these edges, or x; all are returned."""
    graph = torch.fx.Graph()
    x = graph.placeholder("x")
    nodes: list[torch.fx.Node] = []
    for i in range(size):
        reads = tuple(nodes[p] for p, reader in edges if reader == i) or (x,)
        nodes.append(graph.create_node("call_function", mix, reads, name=f"n{i}"))
    graph.output(tuple(nodes))
    return torch.fx.GraphModule(Root(), graph), nodes


def names(partitions: list[Any]) -> list[set[str]]:
    return [{node.name for node in given.nodes} for given in partitions]


def legal(module: torch.fx.GraphModule, partitions: list[Any]) -> bool:
    """Whether they are disjoint and can be fused, one by one and all together."""
    home: dict[torch.fx.Node, int] = {}
    for number, given in enumerate(partitions):
        if not validate_partition(list(given.nodes)):
            return False
        for node in given.nodes:
            if node in home:
                return False
            home[node] = number
    sorter: TopologicalSorter[Any] = TopologicalSorter()
    for node in module.graph.nodes:
        own = home.get(node, node)
        sorter.add(own, *({home.get(used, used) for used in node.all_input_nodes} - {own}))
    try:
        sorter.prepare()
    except CycleError:
        return False
    return True
