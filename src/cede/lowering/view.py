"""What a partitioner gets to see of a program: a copy, and whether it was left as it was."""

from __future__ import annotations

import copy
from typing import TYPE_CHECKING, Any

from torch.fx import GraphModule

if TYPE_CHECKING:
    from torch.export import ExportedProgram


def view_of(program: ExportedProgram) -> ExportedProgram:
    """The program with a graph of its own; weights are shared."""
    view = copy.copy(program)
    view._graph_module = copy.deepcopy(program.graph_module)
    view._graph_signature = copy.deepcopy(program.graph_signature)
    view._state_dict, view._constants = dict(program.state_dict), dict(program.constants)
    return view


def shape_of(program: ExportedProgram) -> list[tuple[str, Any, str]]:
    """Name, target and arguments of every node."""
    return [
        (node.name, node.target, f"{node.args}{node.kwargs}")
        for module in program.graph_module.modules()
        if isinstance(module, GraphModule)
        for node in module.graph.nodes
    ]


def difference(before: list[tuple[str, Any, str]], after: list[tuple[str, Any, str]]) -> str:
    """What changed from one shape to the other, "" for nothing."""
    if before == after:
        return ""
    if len(before) != len(after):
        return f"{len(before)} nodes became {len(after)}"
    for old, new in zip(before, after, strict=True):
        if old != new:
            return f"node {old[0]} changed"
    return ""
