"""Values of control flow that live on while other control flow runs.

ExecuTorch (1.5.1) hands the result of a branch out where the branch computed it, in memory that
all branches of a method share (`exir/memory_planning.py`): the branches of a later op write over
it. A copy right behind the op has memory of its own.
"""

from __future__ import annotations

import operator
from typing import TYPE_CHECKING

import torch
from torch.fx import GraphModule

from cede.policy import without
from cede.types import Code, Reason

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from torch.fx import Graph, Node

    from cede.claim import Answers
    from cede.types import OpGraph

_COPIES = ("aten.clone", "_clone_dim_order")
"""Kinds of what `copy_results` puts in, before and after the conversion to the edge dialect."""


def endangered(module: GraphModule) -> bool:
    """Whether a graph, or a branch in it, has such values."""
    return any(_results(graph) for graph in _graphs(module))


def copy_results(module: GraphModule) -> None:
    """Copy them, in place."""
    for graph in _graphs(module):
        for node in _results(graph):
            node.all_input_nodes[0].append(node)  # it may stand behind the next op of the kind
            with graph.inserting_after(node):
                copied = graph.call_function(torch.ops.aten.clone.default, (node,))
            copied.meta.update(node.meta)
            for user in list(node.users):
                if user is not copied:
                    user.replace_input_with(node, copied)
    for part in module.modules():
        if isinstance(part, GraphModule):
            part.recompile()


def _graphs(module: GraphModule) -> list[Graph]:
    return [part.graph for part in module.modules() if isinstance(part, GraphModule)]


def _results(graph: Graph) -> list[Node]:
    """Tensors that control flow gives, where more of it follows."""
    flows = [
        node for node in graph.nodes if isinstance(node.target, torch._ops.HigherOrderOperator)
    ]
    return [
        user
        for flow in flows[:-1]
        for user in flow.users
        if user.target is operator.getitem and isinstance(user.meta.get("val"), torch.Tensor)
    ]


def apart(graph: OpGraph, answers: Sequence[Answers]) -> tuple[Answers, ...]:
    """The answers without those copies, for who did not claim the op behind which each stands.

    A delegate runs them with its other ops, which may be after the next op of the kind.
    """
    copies = dict(_copies(graph))
    reason = Reason(code=Code.CONTROL_FLOW, detail="its value is needed after more control flow")
    found: list[Answers] = []
    for given in answers:
        claimed = {op for claim in given.claims for op in claim.ops}
        rules = {copy: reason for copy, flow in copies.items() if flow not in claimed}
        backends = {claim.backend for claim in given.claims}
        found += without(graph, (given,), dict.fromkeys(backends, rules))
    return tuple(found)


def _copies(graph: OpGraph) -> Iterator[tuple[str, str]]:
    last = {op.scope: op.id for op in graph.ops if op.branches}
    for op in graph.ops:
        value = next(iter(op.inputs), "")
        if not op.kind.endswith(_COPIES) or value not in graph:
            continue
        flow = next(iter(graph.op(value).inputs), "")
        if graph.op(value).target == "getitem" and flow in graph and graph.op(flow).branches:
            if last[op.scope] != flow:
                yield op.id, flow
