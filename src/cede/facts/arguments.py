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


_FUNCTIONALIZED = (
    torch.ops.higher_order.auto_functionalized,
    torch.ops.higher_order.auto_functionalized_v2,
)


def written_by(node: Node) -> torch._ops.OpOverload | None:
    """The operator of a call that torch made functional because it writes arguments, else None.

    Such a call gives the operator's own results, and then the new value of each written tensor.
    """
    if node.target not in _FUNCTIONALIZED:
        return None
    given = node.args[0]
    return given if isinstance(given, torch._ops.OpOverload) else None


def target_name(target: Any) -> str:
    """The operator with overload: "aten.add.Tensor", "getitem", "cond"."""
    if target is operator.getitem:
        return "getitem"
    overload = aten_overload(target)
    if overload is not None:
        return str(overload)
    name = getattr(target, "__name__", None) or str(target)
    return str(name)


def named_arguments(node: Node) -> dict[str, Any]:
    """The arguments that a node of a torch operator was given, by their names."""
    target: Any = node.target
    names = [argument.name for argument in target._schema.arguments]
    return {**dict(zip(names, node.args, strict=False)), **node.kwargs}


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

    writer = written_by(node)
    if writer is not None:
        return tuple((name, plain(value)) for name, value in _functional(node, writer))
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


def _functional(node: Node, writer: torch._ops.OpOverload) -> list[tuple[str, Any]]:
    """Arguments by the writer's schema, tensors for their places among all that are written.

    A tensor that is a view of the one written to stands as that one; what describes the view
    follows under the names that torch gives it ("_x_storage_offset").
    """
    given = dict(node.kwargs)
    bases: Any = given.pop("_all_bases", ())

    def taken(name: str) -> Any:
        if name in given:
            return given.pop(name)
        length = given.pop(f"_{name}_length", None)
        if length is not None:
            return tuple(taken(f"{name}_{i}") for i in range(length))  # type: ignore[arg-type]
        index: Any = given.pop(f"_{name}_base_index", None)
        return None if index is None else bases[index]

    found = [(argument.name, taken(argument.name)) for argument in writer._schema.arguments]
    return [*found, *given.items()]


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
