"""Quantize and dequantize ops that stay outside of every delegate."""

from __future__ import annotations

from typing import TYPE_CHECKING

from cede.lowering.custom import refusals

if TYPE_CHECKING:
    from cede.planning import Plan
    from cede.types import OpGraph

_KINDS = ("quantized_decomposed.quantize_per", "quantized_decomposed.dequantize_per")


def left_quantized(plan: Plan, graph: OpGraph) -> tuple[str, ...]:
    """A warning for each kind of them, with where they are and why nobody took them."""
    taken = plan.delegation_of()
    found: dict[str, list[str]] = {}
    for op in graph.ops:
        if op.id not in taken and op.target.startswith(_KINDS):
            found.setdefault(op.kind, []).append(f"  {op.where}: {refusals(plan, op.id)}")
    return tuple(
        f"{len(lines)} {kind} outside of every delegate, computed by ExecuTorch's own kernels:\n"
        + "\n".join(lines)
        for kind, lines in found.items()
    )
