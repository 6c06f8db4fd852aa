"""Sizes that depend on data, in the shape environment that all conversions of a program share.

A trace binds each symbol that appeared since the last one (`compute_unbacked_bindings`, torch
2.13), and fails on those that an earlier one left: where it stopped half way, or where a
decomposition read a number of a tensor that no value it returned tells.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from torch._guards import detect_fake_mode

if TYPE_CHECKING:
    from torch.export import ExportedProgram


def forget_pending(program: ExportedProgram) -> None:
    """Let a program be traced anew, whatever became of the attempts before."""
    values = [node.meta["val"] for node in program.graph.nodes if "val" in node.meta]
    mode: Any = detect_fake_mode(values)
    if mode is not None and mode.shape_env is not None:
        mode.shape_env.pending_fresh_unbacked_symbols.clear()
