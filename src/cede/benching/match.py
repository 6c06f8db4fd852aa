"""Which delegation or op an instruction of the emitted program is.

ExecuTorch's emitter goes through the nodes of the program that the manager holds afterwards in
order, and into a branch where it stands (`exir/emit/_emitter.py`). Some nodes, such as views that
were made part of the memory plan, give no instruction, and some instructions come from no node; so
each call is the next node that calls the same operator.
"""

from __future__ import annotations

from bisect import bisect_left
from typing import TYPE_CHECKING, Any

import torch
from executorch.exir.delegate import executorch_call_delegate

if TYPE_CHECKING:
    from collections.abc import Iterator

    from torch.fx import GraphModule, Node

    from cede.lowering import Lowered
    from cede.running.pte import Pte
    from cede.types import OpGraph

_DELEGATE = "delegate"


def instructions(lowered: Lowered, pte: Pte) -> tuple[dict[int, str], dict[int, str]]:
    """By number of the instruction the id of its delegation, and the id of its op."""
    program = lowered.executorch.exported_program(lowered.plan.method)
    owner = {op: given.id for op, given in lowered.plan.delegation_of().items()}
    nodes = list(_nodes(program.graph_module, lowered.graph, owner, ""))
    places: dict[str, list[int]] = {}
    for place, (called, _) in enumerate(nodes):
        places.setdefault(called, []).append(place)
    delegates: dict[int, str] = {}
    ops: dict[int, str] = {}
    reached = 0
    for number, called in _calls(pte, lowered.plan.method):
        own = places.get(called, [])
        if (at := bisect_left(own, reached)) == len(own):
            continue
        reached = own[at] + 1
        (delegates if called == _DELEGATE else ops)[number] = nodes[own[at]][1]
    return delegates, ops


def _calls(pte: Pte, method: str) -> Iterator[tuple[int, str]]:
    """Number of each call, and the operator that it calls."""
    names = pte.operators(method)
    for number, given in enumerate(pte.plan(method).chains[0].instructions or ()):
        kind = type(given.instr_args).__name__
        if kind == "DelegateCall":
            yield number, _DELEGATE
        elif kind == "KernelCall":
            yield number, names[given.instr_args.op_index]


def _nodes(
    module: GraphModule, graph: OpGraph, owner: dict[str, str], scope: str
) -> Iterator[tuple[str, str]]:
    """What each node calls, and the id of its op or delegation, in the order of emission."""
    for node in module.graph.nodes:
        if node.op != "call_function":
            continue
        id = f"{scope}/{node.name}" if scope else node.name
        if node.target is executorch_call_delegate:
            inside = getattr(module, str(node.args[0])).original_module.graph.nodes
            prefix = f"{scope}/" if scope else ""
            found = (owner.get(f"{prefix}{n.name}") for n in inside if n.op == "call_function")
            yield _DELEGATE, next(filter(None, found), "")
            continue
        scopes = graph.op(id).branches if id in graph else ()
        for branch, name in zip(_branches(module, node), scopes, strict=False):
            yield from _nodes(branch, graph, owner, name)
        yield _operator(node.target), id


def _branches(module: GraphModule, flow: Node) -> Iterator[GraphModule]:
    for given in flow.args:
        if isinstance(given, torch.fx.Node) and given.op == "get_attr":
            found = getattr(module, str(given.target), None)
            if isinstance(found, torch.fx.GraphModule):
                yield found


def _operator(target: Any) -> str:
    """ "aten::add.out", as the runtime names it."""
    if not isinstance(target, torch._ops.OpOverload):
        return ""
    name, overload = target._schema.name, target._schema.overload_name
    return f"{name}.{overload}" if overload else name
