"""Quantized values at borders, and quantize and dequantize ops outside of every delegate."""

from __future__ import annotations

from typing import TYPE_CHECKING

from cede.errors import LoweringError
from cede.planning import UNASKED
from cede.reporting.borders import Meeting, borders

if TYPE_CHECKING:
    from cede.planning import Plan
    from cede.types import OpGraph

_KINDS = ("quantized_decomposed.quantize_per", "quantized_decomposed.dequantize_per")


def left_quantized(plan: Plan, graph: OpGraph) -> tuple[str, ...]:
    """A warning for each kind of them, with where they are and why nobody took them."""
    taken, reasons = plan.delegation_of(), plan.reasons()
    found: dict[str, list[str]] = {}
    for op in graph.ops:
        if op.id not in taken and op.target.startswith(_KINDS):
            found.setdefault(op.kind, []).append(f"  {op.where}: {reasons.get(op.id, UNASKED)}")
    return tuple(
        f"{len(lines)} {kind} outside of every delegate, computed by ExecuTorch's own kernels:\n"
        + "\n".join(lines)
        for kind, lines in found.items()
    )


def unlike(plan: Plan, graph: OpGraph) -> tuple[str, ...]:
    """A warning for each border that integers cross, to be read by another scale or zero point.

    Raises:
        LoweringError: they are read as another dtype, along another axis or in another layout.
    """
    warnings = []
    for border in borders(plan, graph):
        one, two = border.given, border.read
        if border.meeting is not Meeting.DISAGREES or one is None or two is None:
            continue
        for name in ("dtype", "axis", "layout"):
            if getattr(one, name) != getattr(two, name):
                raise LoweringError(
                    f"the sides of a border disagree in {name}: {border}; quantize both by one"
                    f" scheme ({graph.op(border.op).where}, {graph.op(border.reader).where})"
                )
        warnings.append(f"the sides of a border disagree: {border}")
    return tuple(warnings)
