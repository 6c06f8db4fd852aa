"""What a partitioner takes of a program, ours and ExecuTorch's own asked about the same one."""

from __future__ import annotations

from collections import Counter
from functools import cache
from typing import TYPE_CHECKING, Any

import torch
from executorch.exir import EdgeCompileConfig, to_edge, to_edge_transform_and_lower

from cede.facts import read_graph
from cede.host import Host
from cede.types import Claim, Program, Refusal

if TYPE_CHECKING:
    from collections.abc import Sequence


class Net(torch.nn.Module):
    """Convolution, pooling, linear and softmax, and a cumulative sum that few backends have."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.conv = torch.nn.Conv2d(3, 8, 3, padding=1)
        self.linear = torch.nn.Linear(8, 4)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = torch.relu(self.conv(x))
        x = torch.nn.functional.adaptive_avg_pool2d(x, 1).flatten(1)
        return torch.softmax(self.linear(x), -1).cumsum(-1)


class Attention(torch.nn.Module):
    """Projections, scaled products and a norm by its parts."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.q, self.k = torch.nn.Linear(8, 8), torch.nn.Linear(8, 8)
        self.scale = torch.nn.Parameter(torch.rand(8))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-6) * self.scale
        weights = torch.softmax(self.q(x) @ self.k(x).transpose(-1, -2), -1)
        return torch.nn.functional.gelu(weights @ x)


NETS: dict[str, tuple[torch.nn.Module, tuple[torch.Tensor, ...]]] = {
    "net": (Net().eval(), (torch.randn(1, 3, 8, 8),)),
    "attention": (Attention().eval(), (torch.randn(1, 5, 8),)),
}


@cache
def exported(name: str) -> torch.export.ExportedProgram:
    """One of the small programs."""
    model, args = NETS[name]
    with torch.no_grad():
        return torch.export.export(model, args)


def edge(program: torch.export.ExportedProgram) -> torch.export.ExportedProgram:
    """Its edge program, everything decomposed."""
    config = EdgeCompileConfig(_check_ir_validity=False)
    return to_edge(program, compile_config=config).exported_program()


def ask(
    name: str, program: torch.export.ExportedProgram, **options: Any
) -> tuple[list[Claim], list[Refusal]]:
    """Claims and refusals of a partitioner of ours for an edge program."""
    host = Host.load()
    partitioner = host.partitioner(name)
    made = host.backend(partitioner.backend).options(**options)
    view = Program(graph=read_graph(program), exported=program, options=made)
    answers = list(partitioner.claim(view))
    return (
        [answer for answer in answers if isinstance(answer, Claim)],
        [answer for answer in answers if isinstance(answer, Refusal)],
    )


@cache
def edge_of(name: str) -> torch.export.ExportedProgram:
    """The edge program of one of the small programs; to be read only."""
    return edge(exported(name))


def tagged(stock: Any, program: torch.export.ExportedProgram) -> set[str]:
    """Names of the ops that a stock partitioner takes. Its tags are taken off again."""
    stock.partition(program)
    tags = {node: node.meta.pop("delegation_tag", None) for node in program.graph.nodes}
    return {node.name for node, tag in tags.items() if tag and node.op == "call_function"}


def inside(program: torch.export.ExportedProgram) -> Counter[str]:
    """How often each operator stands in the delegates of a lowered program."""
    return Counter(
        str(node.target)
        for child in program.graph_module.children()
        if hasattr(child, "original_module")
        for node in child.original_module.graph.nodes
        if node.op == "call_function"
    )


def lowered_by(
    stock: Sequence[Any], program: torch.export.ExportedProgram
) -> torch.export.ExportedProgram:
    """The program with the delegates that ExecuTorch makes with its own partitioners."""
    return to_edge_transform_and_lower(program, partitioner=list(stock)).exported_program()
