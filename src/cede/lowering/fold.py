"""Weights that a program computes from parameters alone, computed once instead of in each call.

A parametrized module (`weight_norm`, a masked or scaled weight) computes its weight in `forward`,
and backends that pack weights ahead of time refuse the product. Only what an operator takes as its
`weight` is folded, and only if that takes no more bytes than the parameters it is made from.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch
from torch.export.graph_signature import InputKind, InputSpec, TensorArgument

from cede.constants import constants, value_of

if TYPE_CHECKING:
    from torch.export import ExportedProgram
    from torch.fx import Node

SLACK = 1 << 12
"""Bytes that a folded weight may take beyond its parameters."""


def foldable(program: ExportedProgram) -> list[Node]:
    """Nodes that compute a weight from constants alone, in graph order."""
    held = constants(program)
    if any(_writes(node) for node in program.graph.nodes):  # a buffer may be written through a view
        for name in program.graph_signature.inputs_to_buffers:
            held.pop(name, None)
    fixed = {n for n in program.graph.nodes if n.op == "placeholder" and n.name in held}
    plain = {n for n in fixed if type(value_of(program, held[n.name])) is torch.Tensor}
    made: set[Node] = set()
    for node in program.graph.nodes:
        if node.op == "call_function" and _pure(node) and node.all_input_nodes:
            if all(used in plain or used in made for used in node.all_input_nodes):
                made.add(node)
    return [node for node in program.graph.nodes if node in made and _worth(node, made)]


def fold(program: ExportedProgram, nodes: list[Node]) -> None:
    """Replace nodes by constants, in place.

    Args:
        program: a copy with a graph, signature and dictionaries of its own.
        nodes: `foldable` of it.
    """
    graph, signature = program.graph_module.graph, program.graph_signature
    held = constants(program)
    last = [n for n in graph.nodes if n.op == "placeholder" and n.name in held][-1]
    at = 1 + next(i for i, s in enumerate(signature.input_specs) if _name(s) == last.name)
    values: dict[Node, Any] = {}
    for node in nodes:
        value = _value(node, program, held, values).detach().contiguous()
        target = f"{node.name}_folded"
        with graph.inserting_after(last):
            placeholder = graph.placeholder(target)
        placeholder.meta["val"] = node.meta["val"]
        program._constants[target] = value
        spec = InputSpec(
            kind=InputKind.CONSTANT_TENSOR, arg=TensorArgument(name=placeholder.name), target=target
        )
        signature.input_specs.insert(at, spec)
        node.replace_all_uses_with(placeholder)
    _forget_unused(program)


def _forget_unused(program: ExportedProgram) -> None:
    graph, signature = program.graph_module.graph, program.graph_signature
    graph.eliminate_dead_code()
    held = constants(program)
    for node in list(graph.nodes):
        if node.op == "placeholder" and node.name in held and not node.users:
            spec = next(s for s in signature.input_specs if _name(s) == node.name)
            signature.input_specs.remove(spec)
            graph.erase_node(node)
    program.graph_module.recompile()


def _worth(node: Node, made: set[Node]) -> bool:
    """Whether it is somebody's weight, computed by more than a change of shape, and no larger."""
    users = [user for user in node.users if user not in made]
    if not users or not any(_takes_weight(user, node) for user in users):
        return False
    chain = _chain(node, made)
    if all(_moves(n) for n in chain & made):
        return False
    roots = sum(_bytes(used) for used in chain - made)
    return _bytes(node) <= roots + SLACK


def _chain(node: Node, made: set[Node]) -> set[Node]:
    """The nodes that a weight is computed by, and the constants that they read."""
    seen, left = {node}, [node]
    while left:
        current = left.pop()
        new = [used for used in current.all_input_nodes if current in made and used not in seen]
        seen.update(new)
        left += new
    return seen


def _moves(node: Node) -> bool:
    """Whether its result is a view."""
    schema = getattr(node.target, "_schema", None)
    return schema is not None and any(given.alias_info is not None for given in schema.returns)


def _takes_weight(user: Node, node: Node) -> bool:
    schema = getattr(user.target, "_schema", None)
    if schema is None:
        return False
    names = [given.name for given in schema.arguments]
    given = {**dict(zip(names, user.args, strict=False)), **user.kwargs}
    return given.get("weight") is node


def _pure(node: Node) -> bool:
    op = node.target
    return (
        isinstance(op, torch._ops.OpOverload)
        and op.namespace == "aten"
        and not op._schema.is_mutable
        and torch.Tag.nondeterministic_seeded not in op.tags
        and isinstance(node.meta.get("val"), torch.Tensor)
        and all(isinstance(size, int) for size in node.meta["val"].shape)
    )


def _writes(node: Node) -> bool:
    schema = getattr(node.target, "_schema", None)
    return schema is not None and bool(schema.is_mutable)


def _value(node: Node, program: ExportedProgram, held: Any, values: dict[Node, Any]) -> Any:
    if node not in values:
        if node.op == "placeholder":
            values[node] = value_of(program, held[node.name])
        else:
            for used in node.all_input_nodes:
                _value(used, program, held, values)
            args, kwargs = torch.fx.map_arg((node.args, node.kwargs), lambda n: values[n])
            with torch.no_grad():
                values[node] = node.target(*args, **kwargs)  # type: ignore[operator]
    return values[node]


def _bytes(node: Node) -> int:
    value = node.meta["val"]
    return int(value.numel() * value.element_size())


def _name(spec: InputSpec) -> str:
    return getattr(spec.arg, "name", "")
