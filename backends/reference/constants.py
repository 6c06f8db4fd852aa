"""Lifts the tensors that a graph holds as attributes to inputs of the program.

ExecuTorch's passes leave such tensors in the branches of control-flow ops ("x - 1.0" becomes a
tensor constant); `torch.export.save` takes constants only as inputs of the whole program.
"""

from __future__ import annotations

from operator import attrgetter

import torch
from torch.export.graph_signature import (
    ExportGraphSignature,
    InputKind,
    InputSpec,
    TensorArgument,
)
from torch.fx import GraphModule, Node


def lift(
    module: GraphModule, signature: ExportGraphSignature
) -> tuple[ExportGraphSignature, dict[str, torch.Tensor]]:
    """Change a graph and its branches so that every tensor they read is an input.

    Every control-flow op of torch takes what its branches read besides the carried values as its
    last argument; a lifted constant is appended there, and to the inputs of each branch.

    Args:
        module: changed in place.
        signature: of the program; not changed.

    Returns:
        The signature with the constants as first inputs, and the constants by name.
    """
    constants = _needed(module)
    _bind(module, constants, first=True)
    specs = [
        InputSpec(kind=InputKind.CONSTANT_TENSOR, arg=TensorArgument(name=name), target=name)
        for name in constants
    ]
    signature = ExportGraphSignature(
        input_specs=[*specs, *signature.input_specs], output_specs=signature.output_specs
    )
    return signature, constants


def _needed(module: GraphModule) -> dict[str, torch.Tensor]:
    """Every tensor that the graph or a branch in it holds, by the name that it gets."""
    found: dict[int, torch.Tensor] = {}

    def collect(inner: GraphModule) -> None:
        for node in inner.graph.nodes:
            if node.op != "get_attr":
                continue
            value = attrgetter(str(node.target))(inner)
            if isinstance(value, GraphModule):
                collect(value)
            elif isinstance(value, torch.Tensor):
                found.setdefault(id(value), value)

    collect(module)
    return {f"lifted_constant_{i}": value for i, value in enumerate(found.values())}


def _bind(module: GraphModule, constants: dict[str, torch.Tensor], *, first: bool) -> None:
    """Give a graph these inputs, before its own or after them, and use them for its tensors."""
    if not constants:
        return
    graph = module.graph
    inputs: dict[int, Node] = {}
    own = [node for node in graph.nodes if node.op == "placeholder"]
    start = next(iter(graph.nodes)) if first or not own else own[-1].next
    with graph.inserting_before(start):
        for name, value in constants.items():
            inputs[id(value)] = graph.placeholder(name)
            inputs[id(value)].meta["val"] = value
    for node in list(graph.nodes):
        held = attrgetter(str(node.target))(module) if node.op == "get_attr" else None
        if isinstance(held, torch.Tensor):
            node.replace_all_uses_with(inputs[id(held)])
            graph.erase_node(node)
        elif isinstance(node.target, torch._ops.HigherOrderOperator):
            for branch in _branches(module, node):
                _bind(branch, constants, first=False)
            # Every branch takes all of them: the operands of a call are the same for each.
            node.args = (*node.args[:-1], [*node.args[-1], *inputs.values()])
    module.recompile()


def _branches(module: GraphModule, node: Node) -> list[GraphModule]:
    values = [
        attrgetter(str(given.target))(module)
        for given in node.all_input_nodes
        if given.op == "get_attr"
    ]
    return [value for value in values if isinstance(value, GraphModule)]
