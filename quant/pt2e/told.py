"""Rows on what became of each op."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from typing import TYPE_CHECKING

import torch

from cede.facts.places import module_of
from cede.quant.pt2e.choice import kind_of
from cede.quant.pt2e.rows import AnnotatedRow

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping

    from torch.fx import GraphModule, Node

    from cede.quant.pt2e.assign import Assignment

Key = tuple[str, str]
"""Name of a quantizer, and a mode."""


def rows(
    model: GraphModule,
    asked: Assignment,
    found: Mapping[Key, Mapping[Node, object]],
    by: Mapping[Node, Key],
    parted: Collection[Node],
) -> tuple[AnnotatedRow, ...]:
    """One row for the ops of a kind in a module that fared alike, in the program's order.

    Args:
        model: the annotated graph.
        asked: the quantizer and mode of an op.
        found: what each quantizer annotated, before what it was not asked for was taken away.
        by: the quantizer and mode that stayed, by op.
        parted: ops that a quantizer would fuse with one in another delegate.
    """

    def row(node: Node) -> AnnotatedRow:
        quantizer, mode = by.get(node, ("", ""))
        note = _shared(node) if mode else _why(node, asked, found, parted)
        kind, module = kind_of(node), module_of(node)
        return AnnotatedRow(
            module=module, op=kind, count=1, quantizer=quantizer, scheme=mode, note=note
        )

    return tuple(_grouped(row(node) for node in model.graph.nodes if _counts(node)))


def _why(
    node: Node,
    asked: Assignment,
    found: Mapping[Key, Mapping[Node, object]],
    parted: Collection[Node],
) -> str:
    whose, kind = asked(node), kind_of(node)
    if not whose.quantizer:
        return whose.why
    key = (whose.quantizer, whose.mode)
    given = found.get(key, {})
    if node in given:
        return "it goes with an op that is left in float"
    if node in parted:
        return "the plan puts it in another delegate than the op that it would be fused with"
    if not node.meta["val"].is_floating_point():
        return f"its result is {str(node.meta['val'].dtype).removeprefix('torch.')}"
    if any(kind_of(other) == kind for other in given):
        return (
            f"the {whose.quantizer} quantizer left this one, and annotated others in mode"
            f" {whose.mode}"
        )
    return f"the {whose.quantizer} quantizer annotates no {kind} in mode {whose.mode}"


def _shared(node: Node) -> str:
    """That a weight has other readers, which then read the same rounded numbers or float ones."""
    others = {
        f"{kind_of(user)}{f' in {module_of(user)}' if module_of(user) else ''}"
        for given in node.all_input_nodes
        if given.op == "get_attr"
        for user in given.users
        if user is not node and user.op == "call_function"
    }
    return f"its weight is also read by {', '.join(sorted(others))}" if others else ""


def _counts(node: Node) -> bool:
    """Whether an op computes a tensor."""
    op = isinstance(node.target, torch._ops.OpOverload)
    return op and isinstance(node.meta.get("val"), torch.Tensor)


def _grouped(given: Iterator[AnnotatedRow]) -> Iterator[AnnotatedRow]:
    for row, count in Counter(given).items():
        yield replace(row, count=count)
