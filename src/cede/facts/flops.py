"""Floating-point operations of one op, from torch's own formulas where it has one."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch
from torch.fx import Node
from torch.utils.flop_counter import flop_registry

from cede.facts.arguments import aten_overload
from cede.facts.tensors import upper_sizes

if TYPE_CHECKING:
    from collections.abc import Mapping

# One pass over the input, or a small fixed number of them: counted as one per input element.
_PER_INPUT = frozenset(
    {
        "aten::_softmax", "aten::_log_softmax", "aten::native_layer_norm",
        "aten::native_group_norm", "aten::_native_batch_norm_legit_no_training",
        "aten::mean", "aten::sum", "aten::amax",
        "aten::amin", "aten::max", "aten::min", "aten::prod", "aten::var", "aten::cumsum",
        "aten::argmax", "aten::argmin", "aten::any", "aten::all", "aten::rms_norm",
    }
)  # fmt: skip
_PER_WINDOW = frozenset({"aten::max_pool2d_with_indices", "aten::avg_pool2d", "aten::max_pool2d"})


def flops_of(node: Node, bounds: Mapping[str, Any]) -> int:
    """FLOPs at the upper bound of symbolic sizes; a multiply-add counts two, data movement none."""
    overload = aten_overload(node.target)
    if overload is None:
        return 0
    name = overload._schema.name
    if name == "aten::linear":
        return _linear(node, bounds)
    if name == "aten::scaled_dot_product_attention":
        return _attention(node, bounds)
    formula = flop_registry.get(overload.overloadpacket)
    if formula is not None:
        return _by_formula(formula, node, bounds)
    if torch.Tag.pointwise in overload.tags and not name.endswith("clone"):
        return _count(node.meta.get("val"), bounds)
    if name in _PER_INPUT:
        return _count(_value(node.args[0]), bounds)
    if name in _PER_WINDOW:
        window = 1
        for size in node.args[1]:  # type: ignore[union-attr]
            window *= int(size)  # type: ignore[arg-type]
        return window * _count(node.meta.get("val"), bounds)
    return 0


def _by_formula(formula: Any, node: Node, bounds: Mapping[str, Any]) -> int:
    def shape(value: Any) -> Any:
        if isinstance(value, Node):
            value = _value(value)
        if isinstance(value, (list, tuple)):
            return [shape(each) for each in value]
        return upper_sizes(value.shape, bounds) if isinstance(value, torch.Tensor) else value

    args = [shape(value) for value in node.args]
    kwargs = {key: shape(value) for key, value in node.kwargs.items()}
    out = shape(node.meta.get("val"))
    try:
        return int(formula(*args, **kwargs, out_val=out))
    except (AttributeError, TypeError, ValueError, AssertionError):
        return 0  # a formula that needs the tensors themselves


def _linear(node: Node, bounds: Mapping[str, Any]) -> int:
    weight = _value(node.args[1])
    inner = upper_sizes(weight.shape, bounds)[-1]
    return 2 * inner * _count(node.meta.get("val"), bounds)


def _attention(node: Node, bounds: Mapping[str, Any]) -> int:
    query, key = _value(node.args[0]), _value(node.args[1])
    length = upper_sizes(key.shape, bounds)[-2]
    return 2 * length * (_count(query, bounds) + _count(node.meta.get("val"), bounds))


def _value(argument: Any) -> Any:
    return argument.meta.get("val") if isinstance(argument, Node) else argument


def _count(value: Any, bounds: Mapping[str, Any]) -> int:
    if isinstance(value, (tuple, list)):
        value = value[0] if value else None
    if not isinstance(value, torch.Tensor):
        return 0
    count = 1
    for size in upper_sizes(value.shape, bounds):
        count *= size
    return count
