"""Operators and their arguments by the names of their schema."""

from __future__ import annotations

import operator
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

import torch
from torch.fx import Node

from cede.types import Ref

if TYPE_CHECKING:
    from collections.abc import Mapping

    from cede.types import Argument


def target_name(target: Any) -> str:
    """The operator with overload: "aten.add.Tensor", "getitem", "cond"."""
    if target is operator.getitem:
        return "getitem"
    overload = aten_overload(target)
    if overload is not None:
        return str(overload)
    name = getattr(target, "__name__", None) or str(target)
    return str(name)


def aten_overload(target: Any) -> torch._ops.OpOverload | None:
    """The torch operator behind a target; an edge operator wraps one. None for other callables."""
    if isinstance(target, torch._ops.OpOverload):
        return target
    inner = getattr(target, "_op", None)
    return inner if isinstance(inner, torch._ops.OpOverload) else None


def arguments(
    node: Node, scope: str, branches: Mapping[str, str] = MappingProxyType({})
) -> tuple[tuple[str, Argument], ...]:
    """Every argument of a node by name, defaults included, in schema order.

    Args:
        node: a call.
        scope: the branch that it stands in, "" at the top.
        branches: by node name, the scope of a subgraph: it has no value, its scope stands for it.
    """

    def plain(value: Any) -> Argument:
        return _plain(value, scope, branches)

    overload = aten_overload(node.target)
    if overload is None:
        names = ("input", "index") if node.target is operator.getitem else ()
        given = [
            (names[i] if i < len(names) else f"arg{i}", plain(value))
            for i, value in enumerate(node.args)
        ]
        return (*given, *((key, plain(value)) for key, value in node.kwargs.items()))
    result: list[tuple[str, Argument]] = []
    for i, argument in enumerate(overload._schema.arguments):
        if i < len(node.args) and not argument.kwarg_only:
            value = node.args[i]
        elif argument.name in node.kwargs:
            value = node.kwargs[argument.name]
        else:
            value = argument.default_value
        result.append((argument.name, plain(value)))
    return tuple(result)


def _plain(value: Any, scope: str, branches: Mapping[str, str]) -> Argument:
    """An fx argument as a frozen value without torch; what has no plain form becomes its text."""
    if isinstance(value, Node):
        return branches.get(value.name) or Ref(scoped(value.name, scope))
    if value is None or isinstance(value, (bool, int, float, str)):
        return value
    if isinstance(value, (list, tuple)):
        return tuple(_plain(each, scope, branches) for each in value)
    return str(value).removeprefix("torch.")


def scoped(name: str, scope: str) -> str:
    """The id of a node: its name, behind its scope inside a branch."""
    return f"{scope}/{name}" if scope else name
