"""Inputs in another layout than contiguous, and kernels that take none.

Most of ExecuTorch's portable kernels want all operands in one dimension order, and some want the
contiguous one; else a call fails. Where an op that was left might meet such values, the program
copies its inputs to the contiguous order first.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch

from cede.lowering.view import view_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from torch.export import ExportedProgram
    from torch.fx import Node

    from cede.planning import Plan
    from cede.types import Op, OpGraph

_ANY = ("aten.convolution", "aten.mean", "aten.clone", "dim_order_ops.")
"""Beginnings of what takes channels last beside contiguous weights, or changes the order."""


class LayoutsMet(Exception):
    """The program must be converted again, with its inputs copied to the contiguous order."""


def odd(program: ExportedProgram) -> list[Node]:
    """The inputs of the user's in another order."""
    names = {str(name) for name in program.graph_signature.user_inputs}
    return [
        node
        for node in program.graph.nodes
        if node.op == "placeholder" and node.name in names and _odd(node.meta.get("val"))
    ]


def _odd(value: object) -> bool:
    return (
        isinstance(value, torch.Tensor)
        and value.layout is torch.strided
        and list(value.dim_order()) != list(range(value.dim()))
    )


def copied_to_plain(program: ExportedProgram) -> ExportedProgram:
    """A view whose inputs are copied to the contiguous order before anything reads them."""
    result = view_of(program)
    written = set(program.graph_signature.user_inputs_to_mutate.values())
    graph = result.graph_module.graph
    for node in odd(result):
        if node.name in written:
            continue
        users = [user for user in node.users if user.op != "output"]
        with graph.inserting_before(next(n for n in graph.nodes if n.op != "placeholder")):
            plain = graph.call_function(
                torch.ops.aten.clone.default, (node,), {"memory_format": torch.contiguous_format}
            )
        plain.meta.update(users[0].meta if users else {})
        plain.meta["val"] = node.meta["val"].contiguous()
        for user in users:
            user.replace_input_with(node, plain)
    result.graph_module.recompile()
    return result


def told_meeting(ops: Sequence[Op]) -> tuple[str, ...]:
    """A warning for each op that may fail when it is called."""
    return tuple(
        f"ExecuTorch's kernel may refuse channels last values, and {op.where} is left to it: make"
        " its operands contiguous in the model" for op in ops
    )  # fmt: skip


def meeting(plan: Plan, graph: OpGraph) -> list[Op]:
    """Ops that were left and whose kernels may refuse the order of an operand."""
    taken = plan.delegation_of()
    return [
        op
        for op in graph.ops
        if op.id not in taken and not op.bookkeeping and not op.kind.startswith(_ANY)
        and _refuses(op, graph)
    ]  # fmt: skip


def _refuses(op: Op, graph: OpGraph) -> bool:
    facts = [fact for fact in map(graph.fact, op.inputs) if fact is not None]
    orders = {fact.dim_order for fact in (*facts, *op.outputs) if fact.rank > 1}
    if all(order == tuple(sorted(order)) for order in orders):
        return False
    return len(orders) > 1 or not _pointwise(op.target)


def _pointwise(target: str) -> bool:
    found: object = torch.ops
    for part in target.split("."):
        found = getattr(found, part, None)
    return torch.Tag.pointwise in getattr(found, "tags", ())
