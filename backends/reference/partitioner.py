"""Claims every op that torch can compute."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from cede.types import Claim, Code, Keep, Reason, Refusal

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from cede.types import Op, OpGraph, Program

NAME = "reference"
_NUMBERS = ("SymInt", "SymFloat", "SymBool")


class ReferencePartitioner:
    """One claim per op; a control-flow op goes with its branches, getitem with its producer."""

    name = NAME
    backend = NAME

    def keeps(self, program: Program) -> Keep:
        """With the option `exact`: every op that can stay whole, so that nothing is decomposed."""
        if not program.options.exact:
            return Keep()
        return Keep(ops=_whole(program.exported), certain=True)

    def claim(self, program: Program) -> Iterable[Claim | Refusal]:
        """A claim for every group of ops, or refusals where one of them can't be computed."""
        for group in _groups(program.graph):
            cause = next((op for op in group if not _known(op.target)), None)
            unfit = _unfit(group, program.graph)
            if unfit is not None:
                for op in group:
                    yield Refusal(partitioner=NAME, op=op.id, reason=unfit)
            elif cause is None and not _symbolic(group[0]):
                yield Claim(partitioner=NAME, backend=NAME, ops=frozenset(op.id for op in group))
            else:
                for op in group:
                    yield Refusal(partitioner=NAME, op=op.id, reason=_reason(op, cause))


def _unfit(group: list[Op], graph: OpGraph) -> Reason | None:
    """Why ExecuTorch can't put a delegate's border around these ops."""
    if not group[0].outputs and not group[0].branches:
        return Reason(
            code=Code.DYNAMIC_SHAPE,
            detail="gives no value: it only checks a size, which the program does itself",
        )
    for op in group:
        facts = [*op.outputs, *(graph.fact(used) for used in op.inputs)]
        for fact in facts:
            if fact is not None and fact.unbacked:
                return Reason(
                    code=Code.DYNAMIC_SHAPE,
                    detail=f"{fact} has a size that depends on data, which no delegate's border"
                    " can have",
                )
    return None


def _whole(program: Any) -> tuple[Any, ...]:
    """The operators of an ATen program that would be decomposed and can be kept from it."""
    import torch

    decomposed = torch.export.default_decompositions()
    found = {
        node.target: None
        for module in program.graph_module.modules()
        if isinstance(module, torch.fx.GraphModule)
        for node in module.graph.nodes
        if isinstance(node.target, torch._ops.OpOverload)
    }
    return tuple(
        op
        for op in found
        if (op in decomposed or op._can_decompose())
        and not op._schema.is_mutable
        and torch.Tag.dynamic_output_shape not in op.tags
        and all(
            given.alias_info is None and "Tensor" in str(given.type) for given in op._schema.returns
        )
    )


def _groups(graph: OpGraph) -> Iterator[list[Op]]:
    """The ops that can't be parted from each other, from the top scope."""
    for op in graph.scope(""):
        if op.target == "getitem" and any(used in graph for used in op.inputs):
            continue
        yield [op, *_branches(graph, op), *_items(graph, op)]


def _branches(graph: OpGraph, op: Op) -> list[Op]:
    found = []
    for branch in op.branches:
        for inner in graph.scope(branch):
            found += [inner, *_branches(graph, inner)]
    return found


def _items(graph: OpGraph, op: Op) -> list[Op]:
    found = []
    for user in map(graph.op, graph.users(op.id)):
        if user.target == "getitem" and user.scope == op.scope:
            found += [user, *_items(graph, user)]
    return found


def _known(target: str) -> bool:
    import math
    import operator

    import torch

    namespace, _, rest = target.partition(".")
    name, _, overload = rest.partition(".")
    if overload:
        packet = getattr(getattr(torch.ops, namespace), name, None)
        return packet is not None and overload in packet.overloads()
    if target == "executorch_call_delegate":
        return False
    # Control flow, and arithmetic on symbolic sizes.
    symbolic = torch if target.startswith("sym_") else math
    return any(hasattr(module, target) for module in (torch.ops.higher_order, operator, symbolic))


def _symbolic(op: Op) -> bool:
    return bool(op.outputs) and all(fact.dtype in _NUMBERS for fact in op.outputs)


def _reason(op: Op, cause: Op | None) -> Reason:
    if cause is None:
        return Reason(
            code=Code.DYNAMIC_SHAPE,
            detail="gives a symbolic number, and ExecuTorch can't lower a delegate whose only"
            " result is one; the program computes it itself",
        )
    if op.id == cause.id:
        return Reason(
            code=Code.UNKNOWN_OP,
            detail=f"no operator {op.target} is registered with torch in this process",
        )
    return Reason(
        code=Code.UNKNOWN_OP,
        detail=f"goes with {cause.where}, which no torch operator of this process computes",
    )
