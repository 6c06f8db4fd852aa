"""State that takes over the value of other state.

ExecuTorch (1.5.1) writes states back one after the other at the end of a call
(`exir/passes/insert_write_back_for_buffers_pass.py`): one whose new value is another state as it
was, reads that after it has been written, in some orders. A clone between is computed before.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch
from torch.export.graph_signature import OutputKind

if TYPE_CHECKING:
    from collections.abc import Iterator

    from torch.export import ExportedProgram
    from torch.fx import Graph, Node

_WRITTEN = (OutputKind.BUFFER_MUTATION, OutputKind.USER_INPUT_MUTATION)
_COPY = torch.ops.aten.copy_.default
_SAME = ("aten.dropout", "aten.alias_copy", "aten.view_copy", "aten.expand_copy")
"""Ops that may go away, besides those whose schema tells of an alias."""


def exchanged(program: ExportedProgram) -> bool:
    """Whether a state takes over another one that is written too."""
    return any(True for _ in _taken_over(program))


def part(program: ExportedProgram) -> None:
    """Clone what is taken over, in place."""
    graph = program.graph_module.graph
    for user, value in list(_taken_over(program)):
        with graph.inserting_before(user):
            clone = graph.call_function(torch.ops.aten.clone.default, (value,))
        clone.meta.update(value.meta if user.op == "output" else user.meta)
        clone.meta["val"] = value.meta["val"]
        if user.target is _COPY:
            user.update_arg(1, clone)
            continue
        values = list(user.args[0])  # type: ignore[arg-type]
        for i, spec in enumerate(program.graph_signature.output_specs):
            if values[i] is value and spec.kind in _WRITTEN:
                values[i] = clone
                spec.arg.name = clone.name
        user.args = (tuple(values),)
    program.graph_module.recompile()


def _taken_over(program: ExportedProgram) -> Iterator[tuple[Node, Node]]:
    """A copy into a state, or the output, with the value that is another state's own."""
    graph = program.graph
    written = _written(program)
    for node in graph.nodes:
        if node.target is _COPY and _origin(node.args[0]) in written:
            value = node.args[1]
            if (origin := _origin(value)) in written and origin is not _origin(node.args[0]):
                yield node, value
    output = graph.output_node()
    targets = _targets(program)
    found = set()
    for value, spec in zip(output.args[0], program.graph_signature.output_specs, strict=True):
        if spec.kind in _WRITTEN and value not in found:
            origin = _origin(value)
            if origin in written and origin is not targets.get(spec.target):
                found.add(value)
                yield output, value


def _written(program: ExportedProgram) -> set[Node]:
    """Inputs of the graph that are written, by an op or by what the signature says."""
    targets = _targets(program)
    specs = program.graph_signature.output_specs
    found: set[Node | None] = {targets[spec.target] for spec in specs if spec.kind in _WRITTEN}
    for node in program.graph.nodes:
        if isinstance(node.target, torch._ops.OpOverload) and node.target._schema.is_mutable:
            for given, value in zip(node.target._schema.arguments, node.args, strict=False):
                if given.alias_info is not None and given.alias_info.is_write:
                    found.add(_origin(value))
    return {node for node in found if node is not None and node.op == "placeholder"}


def _targets(program: ExportedProgram) -> dict[str | None, Node]:
    """Inputs of the graph, by the target of a state or the name of an input of the call."""
    nodes = _by_name(program.graph)
    found: dict[str | None, Node] = {}
    for spec in program.graph_signature.input_specs:
        name = getattr(spec.arg, "name", "")
        if name in nodes:
            found[spec.target if spec.target is not None else name] = nodes[name]
    return found


def _by_name(graph: Graph) -> dict[str, Node]:
    return {node.name: node for node in graph.nodes if node.op == "placeholder"}


def _origin(value: object) -> Node | None:
    """What a value is, seen through ops that only show it otherwise."""
    node = value if isinstance(value, torch.fx.Node) else None
    while node is not None and node.op == "call_function" and _shows(node):
        node = node.args[0] if isinstance(node.args[0], torch.fx.Node) else None
    return node


def _shows(node: Node) -> bool:
    target = node.target
    if not isinstance(target, torch._ops.OpOverload) or not node.args:
        return False
    aliases = any(given.alias_info is not None for given in target._schema.returns)
    return (aliases and not target._schema.is_mutable) or str(target).startswith(_SAME)
