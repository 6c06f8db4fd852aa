"""Steps of outputs that were rounded to integers: a right kernel may round to the neighbour."""

from __future__ import annotations

from typing import TYPE_CHECKING

from torch.fx import Node
from torch.utils import _pytree as pytree

from cede.facts.arguments import target_name

if TYPE_CHECKING:
    from torch.fx import Graph

QUANTIZE = "quantized_decomposed.quantize_per_tensor.default"
DEQUANTIZE = "quantized_decomposed.dequantize_per_tensor.default"
_MOVES = frozenset(
    f"aten.{name}"
    for name in (
        "alias", "alias_copy", "clone", "expand", "expand_copy", "flatten", "permute",
        "permute_copy", "reshape", "select", "select_copy", "slice", "slice_copy", "squeeze",
        "squeeze_copy", "t", "transpose", "transpose_copy", "unsqueeze", "unsqueeze_copy",
        "view", "view_copy", "_unsafe_view",
    )
) | {"dim_order_ops._clone_dim_order"}  # fmt: skip
"""Ops that move numbers and leave them as they are."""


def steps_of(graph: Graph) -> tuple[float, ...]:
    """For each flat output of a graph the distance of neighbouring values, 0.0 where it is free.

    A quantized output has a step of 1, a dequantized one that of its scale.
    """
    (output,) = (node for node in reversed(graph.nodes) if node.op == "output")
    return tuple(_step(value) for value in pytree.tree_leaves(output.args[0]))


def _step(value: object) -> float:
    while isinstance(value, Node) and value.op == "call_function":
        name = target_name(value.target)
        if name == QUANTIZE:
            return 1.0
        if name == DEQUANTIZE:
            scale = value.args[1]
            return scale if isinstance(scale, float) else 0.0
        if name.rpartition(".")[0] not in _MOVES:
            break
        value = value.args[0]
    return 0.0
