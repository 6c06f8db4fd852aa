"""The values that nodes stand for, made anew only where a pass changed something."""

from __future__ import annotations

import operator
from typing import TYPE_CHECKING, Any

import torch
from executorch.exir.dialects.edge._ops import EdgeOpOverload
from torch._dispatch.python import enable_python_dispatcher
from torch._ops import OpOverload
from torch._subclasses.fake_tensor import FakeTensor, FakeTensorMode
from torch.fx.node import map_arg
from torch.utils import _pytree as pytree

if TYPE_CHECKING:
    from torch.fx import GraphModule, Node

Fitting = dict["Node", tuple[Any, Any, Any, Any]]
"""Target, args, kwargs and value of each node, when all values fitted."""

_SCALARS = (int, float, bool, str, torch.SymInt, torch.SymFloat, torch.SymBool, type(None))


class Unfit(Exception):
    """The graph has what only a real trace can do."""


def fitting(module: GraphModule) -> Fitting:
    """Remember a graph whose values fit."""
    return {n: (n.target, n.args, n.kwargs, n.meta.get("val")) for n in module.graph.nodes}


def unchanged(module: GraphModule, before: Fitting) -> bool:
    """Whether a graph is as it was when it was remembered."""
    nodes = list(module.graph.nodes)
    return len(nodes) == len(before) and all(_as_before(node, before) for node in nodes)


def refresh(module: GraphModule, before: Fitting) -> None:
    """Make the values that no longer fit, in place.

    Args:
        module: a graph that was changed, or perhaps not.
        before: `fitting` of it, from before.

    Raises:
        Unfit: it can't be done so; the graph is as it was.
    """
    mode, stale = _inputs(module, before)
    calls = [node for node in module.graph.nodes if node.op == "call_function"]
    others = (n for n in module.graph.nodes if n.op in ("get_attr", "call_module", "call_method"))
    if not all(_as_before(node, before) for node in others):
        raise Unfit
    todo = {node for node in calls if not _as_before(node, before)}
    if not todo and not stale:
        return
    if mode is None or not all(_simple(node) for node in calls):
        raise Unfit
    _make(calls, todo, stale, mode)


def _inputs(module: GraphModule, before: Fitting) -> tuple[FakeTensorMode | None, set[Node]]:
    """The mode of a graph's inputs, and those that are not as they were."""
    mode: FakeTensorMode | None = None
    stale: set[Node] = set()
    for node in module.graph.nodes:
        if node.op != "placeholder":
            continue
        value = node.meta.get("val")
        if isinstance(value, FakeTensor):
            mode = mode or value.fake_mode
            if value.fake_mode is not mode:
                raise Unfit
        elif not isinstance(value, _SCALARS):
            raise Unfit
        if node not in before or before[node][3] is not value:
            stale.add(node)
    return mode, stale


def _simple(node: Node) -> bool:
    return isinstance(node.target, (EdgeOpOverload, OpOverload)) or node.target is operator.getitem


def _as_before(node: Node, before: Fitting) -> bool:
    if node not in before:
        return False
    target, args, kwargs, value = before[node]
    same = node.target is target and node.meta.get("val") is value
    return same and _same(node.args, args) and _same(node.kwargs, kwargs)


def _same(one: Any, other: Any) -> bool:
    return one is other or bool(one == other)


def _make(calls: list[Node], todo: set[Node], stale: set[Node], mode: FakeTensorMode) -> None:
    allowed, mode.allow_non_fake_inputs = mode.allow_non_fake_inputs, True
    try:
        with mode, enable_python_dispatcher():
            for node in calls:
                if node not in todo and stale.isdisjoint(node.all_input_nodes):
                    continue
                args, kwargs = map_arg((node.args, node.kwargs), lambda n: n.meta["val"])
                target: Any = node.target
                made = pytree.tree_map(lambda x: _fake(x, mode), target(*args, **kwargs))
                if not _alike(made, node.meta.get("val")):
                    stale.add(node)
                    node.meta["val"] = made
    finally:
        mode.allow_non_fake_inputs = allowed


def _fake(value: Any, mode: FakeTensorMode) -> Any:
    if isinstance(value, torch.Tensor) and not isinstance(value, FakeTensor):
        return mode.from_tensor(value)
    return value


def _alike(one: Any, other: Any) -> bool:
    """Whether two values are the same for whoever computes with them."""
    if isinstance(one, FakeTensor) and isinstance(other, FakeTensor):
        return (
            one.fake_mode is other.fake_mode
            and one.dtype == other.dtype
            and all(type(size) is int for size in (*one.shape, *other.shape))
            and one.shape == other.shape
            and one.stride() == other.stride()
        )
    if isinstance(one, (tuple, list)) and type(one) is type(other) and len(one) == len(other):
        return all(_alike(a, b) for a, b in zip(one, other, strict=True))
    return type(one) is type(other) and isinstance(one, (int, float, str)) and one == other
