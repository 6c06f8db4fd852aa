"""Whether tracing a graph with a pass changes nothing in it but values."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch
from executorch.exir.pass_base import ExportPass
from executorch.exir.passes.const_prop_pass import ConstPropPass
from executorch.exir.passes.dim_order_ops_registry import DimOrderOpsMap, MemoryFormatOpsMap
from executorch.exir.passes.legalize_portable_dim_order_pass import LegalizePortableDimOrderPass
from executorch.exir.passes.memory_format_ops_pass import DimOrderOpsRevertPass, MemoryFormatOpsPass
from executorch.exir.passes.normalize_transpose_pass import NormalizeTransposePass
from executorch.exir.passes.remove_mixed_type_operators import RemoveMixedTypeOperators
from executorch.exir.passes.replace_broken_ops_with_function_ops_pass import (
    ReplaceBrokenOpsWithFunctionalOpsPass,
)
from executorch.exir.passes.scalar_to_tensor_pass import ScalarToTensorPass
from executorch.exir.passes.sym_to_tensor_pass import SymToTensorPass
from torch._subclasses.fake_tensor import FakeTensor
from torch.fx import GraphModule
from torch.fx.traceback import NodeSource, NodeSourceAction
from torch.utils import _pytree as pytree

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from torch.fx import Node

_HOOKS = (
    "call_operator", "call_sym", "call_getitem", "call_cond", "call_map", "call_while", "call_scan",
    "call_delegate", "call_submodule", "placeholder", "output", "inputs", "on_attr",
    "ExportInterpreter", "ExportTracer", "_fx",
)  # fmt: skip
"""What a pass overrides to change a graph while it is traced."""

_PROMOTED = (
    torch.ops.aten.add.Tensor, torch.ops.aten.mul.Tensor, torch.ops.aten.sub.Tensor,
    torch.ops.aten.div.Tensor, torch.ops.aten.div.Tensor_mode, torch.ops.aten.minimum.default,
)  # fmt: skip

_BRANCHING = (
    torch.ops.higher_order.cond, torch.ops.higher_order.map_impl,
    torch.ops.higher_order.while_loop, torch.ops.higher_order.scan,
)  # fmt: skip
"""Operators whose branches a trace goes into; the others are interpreted blindly."""


def is_idle(given: ExportPass, module: GraphModule) -> bool:
    """Whether a pass, at its trace, leaves every node of a graph as it is."""
    kind = type(given)
    overridden = [name for name in _HOOKS if getattr(kind, name) is not getattr(ExportPass, name)]
    if not overridden:
        return True
    leaves = _LEAVES.get(kind)
    if leaves is None or overridden != ["call_operator"]:
        return False
    nodes = [node for node in module.graph.nodes if node.op == "call_function"]
    return all(node.target not in _BRANCHING and leaves(node) for node in nodes)


def _none_of(*targets: Any) -> Callable[[Node], bool]:
    return lambda node: node.target not in targets


def _no_view(node: Node) -> bool:
    return not getattr(node.target, "is_view", False)


def _tensors(node: Node) -> Iterator[Any]:
    """What is given where the schema says Tensor, and in lists of them."""
    schema = getattr(node.target, "_schema", None)
    for i, argument in enumerate(schema.arguments if schema is not None else ()):
        if "Tensor" not in str(argument.type):
            continue
        if argument.name in node.kwargs:
            value = node.kwargs[argument.name]
        elif i < len(node.args):
            value = node.args[i]
        else:
            continue
        yield from value if isinstance(value, (tuple, list)) else (value,)


def _no_scalar(node: Node) -> bool:
    return not any(isinstance(value, (int, float, bool)) for value in _tensors(node))


def _no_symbol(node: Node) -> bool:
    symbols = (torch.SymInt, torch.SymFloat, torch.SymBool)
    given = (value.meta.get("val") for value in _tensors(node) if hasattr(value, "meta"))
    return not any(isinstance(value, symbols) for value in given)


def _one_dtype(node: Node) -> bool:
    if node.target not in _PROMOTED:
        return True
    values: list[Any] = [getattr(value, "meta", {}).get("val") for value in node.args]
    if not all(isinstance(value, torch.Tensor) for value in values):
        return False
    return len({value.dtype for value in values}) == 1 and values[0].dtype.is_floating_point


_LEAVES: dict[type, Callable[[Node], bool]] = {
    NormalizeTransposePass: _none_of(torch.ops.aten.t.default),
    ReplaceBrokenOpsWithFunctionalOpsPass: _no_view,
    ScalarToTensorPass: _no_scalar,
    SymToTensorPass: _no_symbol,
    RemoveMixedTypeOperators: _one_dtype,
    MemoryFormatOpsPass: _none_of(*DimOrderOpsMap),
    DimOrderOpsRevertPass: _none_of(*MemoryFormatOpsMap),
    ConstPropPass: lambda node: bool(node.all_input_nodes),  # it computes what no node goes into
    LegalizePortableDimOrderPass: _none_of(*LegalizePortableDimOrderPass._target_ops),
}


def with_origins(module: GraphModule) -> None:
    """Write what nodes were made from that don't tell, as a trace does: ExecuTorch insists."""
    for node in _inner_nodes(module):
        if "from_node" not in node.meta:
            node.meta["from_node"] = [NodeSource(node, "cede", NodeSourceAction.CREATE)]


def noted(module: GraphModule) -> bool:
    """Write what else a trace writes on ops of several results: no facts but those in "val".

    Returns:
        False where it would be more than that, and nothing may be left out.
    """
    lacking = [
        node
        for node in _inner_nodes(module)
        if isinstance(node.meta.get("val"), tuple | list) and "tensor_meta" not in node.meta
    ]
    leaves = (leaf for node in lacking for leaf in pytree.tree_leaves(node.meta["val"]))
    if any(isinstance(leaf, torch.Tensor) and not isinstance(leaf, FakeTensor) for leaf in leaves):
        return False
    for node in lacking:
        node.meta["tensor_meta"] = pytree.tree_map(lambda _: None, node.meta["val"])
    return True


def _inner_nodes(module: GraphModule) -> Iterator[Node]:
    for each in module.modules():
        if isinstance(each, GraphModule):
            for node in each.graph.nodes:
                if node.op not in ("placeholder", "output", "get_attr"):
                    yield node
