"""Dynamic sizes that ExecuTorch's verifier would fix.

For an op that returns a list of tensors, `EdgeOpArgValidator` (`exir/verification`, 1.5.1) takes
the first tensor for the list and asks for its length. Where that is symbolic, torch fixes the size
at the example's, in silence, for the whole program and for the exported one behind it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch
from executorch.exir import EdgeCompileConfig
from torch.fx import GraphModule

from cede.errors import LoweringError

if TYPE_CHECKING:
    from torch.export import ExportedProgram

Place = tuple[int, int]
"""Number of a user input, and one of its dimensions."""


def compile_config(program: ExportedProgram) -> EdgeCompileConfig:
    """How to convert a program: verified, unless that would fix a dynamic size."""
    return EdgeCompileConfig(_check_ir_validity=not (dynamic(program) and _lists(program)))


def dynamic(program: ExportedProgram) -> frozenset[Place]:
    """Where the inputs of a program have a symbolic size."""
    values = {n.name: n.meta.get("val") for n in program.graph.nodes if n.op == "placeholder"}
    return frozenset(
        (i, dim)
        for i, name in enumerate(program.graph_signature.user_inputs)
        if isinstance(value := values.get(str(name)), torch.Tensor)
        for dim, size in enumerate(value.shape)
        if isinstance(size, torch.SymInt) and size.node.expr.free_symbols
    )


def insist_on_dynamic(program: ExportedProgram, wanted: frozenset[Place]) -> None:
    """Stop where an edge program has lost a dynamic size.

    Args:
        program: the edge program.
        wanted: `dynamic` of the program that it was made from, taken before.

    Raises:
        LoweringError: names the input, and the ops that lead to it.
    """
    lost = sorted(wanted - dynamic(program))
    if not lost:
        return
    names = [str(name) for name in program.graph_signature.user_inputs]
    places = ", ".join(f"dimension {dim} of {names[i]}" for i, dim in lost)
    ops = ", ".join(_lists(program)[:5])
    because = f"; its verifier does so for ops that return a list ({ops})" if ops else ""
    raise LoweringError(
        f"ExecuTorch fixed a dynamic size while it converted the program: {places}{because}."
        " Export the model again, and pass compile_config="
        "EdgeCompileConfig(_check_ir_validity=False) to to_edge_transform_and_lower."
    )


def _lists(program: ExportedProgram) -> list[str]:
    return [
        node.name
        for module in program.graph_module.modules()
        if isinstance(module, GraphModule)
        for node in module.graph.nodes
        if node.op == "call_function" and isinstance(node.meta.get("val"), list)
    ]
