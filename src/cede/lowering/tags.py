"""From a plan to delegation tags on the nodes, at the last moment."""

from __future__ import annotations

import operator
from typing import TYPE_CHECKING, Any

import torch
from executorch.exir.backend.utils import tag_constant_data
from torch.fx import GraphModule

from cede.errors import PlanError, PluginError
from cede.facts.arguments import scoped
from cede.facts.places import node_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from torch.export import ExportedProgram
    from torch.fx import Node

    from cede.host import Host
    from cede.planning import Plan
    from cede.types import OpGraph

    Holds = Callable[[str, OpGraph], bool]


def write_tags(
    plan: Plan, graph: OpGraph, program: ExportedProgram, holds: Mapping[str, Holds] | None = None
) -> dict[str, str]:
    """Tag every delegated node and the constants it uses.

    Args:
        plan: for this program.
        graph: its facts; a delegation that holds a control-flow op carries its branches along.
        program: the edge program to tag.
        holds: by backend, its `Backend.holds` where it has one.

    Returns:
        Tag by delegation id.

    Raises:
        PlanError: the plan names an op that the program doesn't have.
        PluginError: a backend failed when asked whether it takes a constant in.
    """
    nodes = dict(nodes_by_id(program.graph_module))
    tags = {given.id: f"cede_{given.id}" for given in plan.delegations}
    for given in plan.delegations:
        carried = {scope for op in given.ops if op in graph for scope in graph.op(op).branches}
        for op in given.ops:
            if op not in nodes:
                raise PlanError(f"delegation {given.id} names {op}, which is not in the program")
            if graph.op(op).scope not in carried and not _inside(graph.op(op).scope, carried):
                nodes[op].meta["delegation_tag"] = tags[given.id]
        for op, key, value in given.marks:
            if op not in nodes:
                raise PlanError(f"a mark of delegation {given.id} names {op}, which is not there")
            nodes[op].meta[key] = list(value) if isinstance(value, tuple) else value
    _tag_branches(program.graph_module)
    tag_constant_data(program)
    asked = {tags[given.id]: given.backend for given in plan.delegations}
    _hand_over(program, graph, asked, holds or {})
    _ready_inputs(program)
    return tags


def taken_in(plan: Plan, host: Host) -> dict[str, Holds]:
    """`Backend.holds` of the plan's backends, where there is one."""
    names = {given.backend for given in plan.delegations}
    return {name: asked for name in names if (asked := host.backend(name).holds)}


def _hand_over(
    program: ExportedProgram, graph: OpGraph, asked: dict[str, str], holds: Mapping[str, Holds]
) -> None:
    """Take the tags off constants that a backend does not take in."""
    for node in program.graph.nodes:
        backend = asked.get(node.meta.get("delegation_tag", ""))
        if node.op != "placeholder" or backend is None or backend not in holds:
            continue
        try:
            taken = holds[backend](node.name, graph)
        except Exception as error:
            raise PluginError(
                f"the backend {backend!r} failed when asked whether it takes the constant"
                f" {node.name} in: {type(error).__name__}: {error}"
            ) from error
        if not taken:
            del node.meta["delegation_tag"]


def _ready_inputs(program: ExportedProgram) -> None:
    """Say on the inputs what a script's own `to_executorch()` has no way to know.

    Trained weights don't make the program trainable, for it writes buffers in place; and a buffer
    that is written keeps its initial value.
    """
    signature = program.graph_signature
    written = set(signature.buffers_to_mutate.values())
    for node in program.graph.nodes:
        if node.op != "placeholder":
            continue
        value = node.meta.get("val")
        if isinstance(value, torch.Tensor) and value.requires_grad:
            node.meta["val"] = value.detach()
        if signature.inputs_to_buffers.get(node.name) in written:
            node.meta["et_init_buffer"] = True


def _inside(scope: str, carried: set[str]) -> bool:
    return any(scope.startswith(f"{outer}/") for outer in carried)


def nodes_by_id(module: GraphModule, scope: str = "") -> Iterator[tuple[str, Node]]:
    """Every call and attribute of a graph and its branches, with its id in the facts."""
    for node in module.graph.nodes:
        if node.op not in ("call_function", "get_attr"):
            continue
        yield scoped(node.name, scope), node
        for name, branch in _branches(module, node):
            yield from nodes_by_id(branch, scoped(f"{node.name}/{name}", scope))


def noted(program: ExportedProgram) -> dict[str, str]:
    """The name that each op's node had before it was decomposed, by id, where it was noted."""
    return {id: name for id, node in nodes_by_id(program.graph_module) if (name := node_of(node))}


def _branches(module: GraphModule, node: Node) -> Iterator[tuple[str, GraphModule]]:
    for used in node.all_input_nodes:
        if used.op == "get_attr":
            value: Any = operator.attrgetter(str(used.target))(module)
            if isinstance(value, GraphModule):
                yield str(used.target), value


def _tag_branches(module: GraphModule) -> None:
    """The get_attr nodes of branches and constants go with the op that uses them."""
    for node in module.graph.nodes:
        if node.op == "get_attr":
            tags = {user.meta.get("delegation_tag") for user in node.users}
            if len(tags) == 1 and (tag := tags.pop()) is not None:
                node.meta["delegation_tag"] = tag
        elif node.op == "call_function":
            for _, branch in _branches(module, node):
                _tag_branches(branch)
