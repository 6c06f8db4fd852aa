"""Facts: an `OpGraph` read once from an edge program. Below this line deciding needs no torch."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch
from torch.export.graph_signature import InputKind as ExportKind
from torch.export.graph_signature import OutputKind
from torch.fx import GraphModule, Node

from cede.facts.arguments import arguments, scoped, target_name, written_by
from cede.facts.fingerprint import fingerprint
from cede.facts.flops import flops_of
from cede.facts.places import layer_of, module_of, origin_of, source_of
from cede.facts.tensors import UNBOUNDED, fact_of, facts_of, whole
from cede.types import GraphInput, InputKind, Op, OpGraph, SymbolBounds

if TYPE_CHECKING:
    from torch.export import ExportedProgram

__all__ = ["read_graph"]

_KINDS = {
    ExportKind.PARAMETER: InputKind.PARAMETER,
    ExportKind.BUFFER: InputKind.BUFFER,
    ExportKind.CONSTANT_TENSOR: InputKind.CONSTANT,
}

_WRITES = (
    OutputKind.BUFFER_MUTATION,
    OutputKind.PARAMETER_MUTATION,
    OutputKind.USER_INPUT_MUTATION,
)


def read_graph(program: ExportedProgram) -> OpGraph:
    """Read the facts of an edge (or ATen) program in one pass; nothing is copied or changed.

    Args:
        program: a functional program; its values may be fake.
    """
    reader = _Reader(program)
    reader.read(program.graph_module, "")
    signature = program.graph_signature
    mutations = tuple(
        (str(spec.target), spec.arg.name)
        for spec in signature.output_specs
        if spec.kind in _WRITES and hasattr(spec.arg, "name")
    )
    outputs = tuple(
        spec.arg.name
        for spec in signature.output_specs
        if spec.kind is OutputKind.USER_OUTPUT and spec.arg.name
    )
    symbols = tuple(_bounds(str(s), r) for s, r in program.range_constraints.items())
    return OpGraph(
        inputs=tuple(reader.inputs),
        ops=tuple(reader.ops),
        outputs=outputs,
        mutations=mutations,
        returns=tuple(reader.returns),
        symbols=symbols,
        fingerprint=fingerprint(reader.inputs, reader.ops, outputs, mutations, symbols),
    )


class _Reader:
    """Collects inputs and ops scope by scope, branches before the op that runs them."""

    def __init__(self, program: ExportedProgram) -> None:
        self.inputs: list[GraphInput] = []
        self.ops: list[Op] = []
        self.returns: list[tuple[str, tuple[str, ...]]] = []
        self.bounds = {str(s): r for s, r in program.range_constraints.items()}
        signature = program.graph_signature
        self.specs = {spec.arg.name: spec for spec in signature.input_specs if _named(spec)}
        self.written = {str(spec.target) for spec in signature.output_specs if spec.kind in _WRITES}

    def read(self, module: GraphModule, scope: str) -> None:
        for node in module.graph.nodes:
            if node.op == "placeholder":
                self.inputs.append(self._placeholder(node, scope))
            elif node.op == "get_attr":
                if isinstance(value := _attribute(module, node), torch.Tensor):
                    self.inputs.append(
                        GraphInput(
                            id=scoped(node.name, scope),
                            kind=InputKind.CONSTANT,
                            target=str(node.target),
                            tensor=fact_of(node.meta.get("val", value), self.bounds),
                            scope=scope,
                        )
                    )
            elif node.op == "output":
                if scope:
                    given = tuple(scoped(used.name, scope) for used in node.all_input_nodes)
                    self.returns.append((scope, given))
            else:
                self._op(module, node, scope)

    def _placeholder(self, node: Node, scope: str) -> GraphInput:
        spec = None if scope else self.specs.get(node.name)
        kind = _KINDS.get(spec.kind, InputKind.USER) if spec is not None else InputKind.USER
        target = spec.target if spec is not None else None
        return GraphInput(
            id=scoped(node.name, scope),
            kind=kind,
            target=target,
            tensor=fact_of(node.meta.get("val"), self.bounds),
            mutated=(target or node.name) in self.written and not scope,
            scope=scope,
        )

    def _op(self, module: GraphModule, node: Node, scope: str) -> None:
        branches: dict[str, str] = {}
        for used in node.all_input_nodes:
            if used.op == "get_attr" and isinstance(
                branch := _attribute(module, used), GraphModule
            ):
                name = scoped(f"{node.name}/{used.target}", scope)
                if name not in branches.values():  # both branches may be one function
                    self.read(branch, name)
                branches[used.name] = name
        inputs = tuple(
            scoped(used.name, scope) for used in node.all_input_nodes if used.name not in branches
        )
        target, origin = target_name(written_by(node) or node.target), origin_of(node)
        self.ops.append(
            Op(
                id=scoped(node.name, scope),
                target=target,
                args=arguments(node, scope, branches),
                inputs=inputs,
                outputs=facts_of(node.meta.get("val"), self.bounds),
                module=module_of(node),
                source=source_of(node),
                layer=layer_of(node),
                scope=scope,
                branches=tuple(dict.fromkeys(branches.values())),
                flops=flops_of(node, self.bounds),
                origin="" if origin == target else origin,
            )
        )


def _named(spec: Any) -> bool:
    return hasattr(spec.arg, "name")


def _attribute(module: GraphModule, node: Node) -> Any:
    value: Any = module
    for part in str(node.target).split("."):
        value = getattr(value, part)
    return value


def _bounds(name: str, ranges: Any) -> SymbolBounds:
    def number(value: Any) -> int | None:
        given = whole(value)
        return given if given is not None and abs(given) < UNBOUNDED else None

    return SymbolBounds(name=name, low=number(ranges.lower), high=number(ranges.upper))
