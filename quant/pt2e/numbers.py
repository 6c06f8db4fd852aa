"""Numbers in calls, as quantizers may leave them.

XNNPACK's and Vulkan's quantizers (ExecuTorch 1.5, `_convert_scalars_to_attrs`) make the number of
each `add` and `mul` a float32 constant, so that it can be annotated: `position + 1` of integers is
then float32, and nothing can be indexed with it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from torch.fx import GraphModule, Node


def with_numbers(change: Callable[[GraphModule], GraphModule], model: GraphModule) -> GraphModule:
    """What `change` makes of a graph, with the numbers of calls that are not float32 as they were.

    No quantizer annotates those. Numbers of float32 calls are left to it.
    """
    before = {node.name: (node.target, node.args) for node in _exact(model)}
    model = change(model)
    constants: set[Node] = set()
    for node in model.graph.nodes:
        target, args = before.get(node.name, (None, ()))
        if node.target is not target or len(node.args) != len(args):
            continue
        for i, (old, new) in enumerate(zip(args, node.args, strict=True)):
            if isinstance(old, (bool, int, float)) and _is_constant(new):
                node.update_arg(i, old)
                constants.add(new)
    for constant in constants:
        if not constant.users:
            model.graph.erase_node(constant)
    if constants:
        model.graph.lint()
        model.recompile()
    return model


def _exact(model: GraphModule) -> Iterator[Node]:
    for node in model.graph.nodes:
        value = node.meta.get("val")
        if node.op == "call_function" and isinstance(value, torch.Tensor):
            if value.dtype != torch.float32:
                yield node


def _is_constant(value: object) -> bool:
    return isinstance(value, torch.fx.Node) and value.op == "get_attr"
