"""The Python face: everything in a row, or step by step."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from cede.config import Config, load_config

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    import torch
    from torch.export import ExportedProgram

    from cede.lower import Lowered, PlanPartitioner
    from cede.plan import Plan
    from cede.report import Report
    from cede.run import Check, RunResult


def partitioner(*backends: str, config: Config | Path | str | None = None) -> PlanPartitioner:
    """One ExecuTorch `Partitioner` over any number of backends, for an existing export script.

        edge = to_edge_transform_and_lower(program, partitioner=[cede.partitioner("xnnpack")])

    Afterwards it holds `.plan` and `.report()`.

    Args:
        backends: names in priority order; none takes those of the config.
        config: a `Config`, a YAML file, or the name of a ready config.

    Raises:
        ConfigError: an unknown backend or a config that can't be used.
        PluginError: a plugin that the config asks for failed.
    """
    raise NotImplementedError


def plan(program: ExportedProgram, config: Config | Path | str | None = None) -> Plan:
    """Settle who gets which op of a program from `torch.export.export`, without compiling."""
    raise NotImplementedError


def lower(
    program: ExportedProgram,
    plan: Plan | None = None,
    config: Config | Path | str | None = None,
) -> Lowered:
    """Compile the delegates of a plan (made here if None) and emit the ExecuTorch program."""
    raise NotImplementedError


def export(
    model: torch.nn.Module,
    args: Sequence[Any],
    kwargs: Mapping[str, Any] | None = None,
    *,
    config: Config | Path | str | None = None,
    dynamic_shapes: Any = None,
) -> Lowered:
    """`torch.export.export`, plan and lower in a row."""
    raise NotImplementedError


def report(program: ExportedProgram, config: Config | Path | str | None = None) -> Report:
    """Plan a program and give the per-op delegation table."""
    raise NotImplementedError


def run(program: bytes | Path | str, inputs: Sequence[Any], method: str = "forward") -> RunResult:
    """Run a `.pte` once in ExecuTorch's runtime, or in its backend's own runner."""
    raise NotImplementedError


def check(
    lowered: Lowered, calls: Sequence[Sequence[Any]], config: Config | Path | str | None = None
) -> Check:
    """Run a lowered program and eager on the same calls, and compare.

    Names the first delegate that differs.
    """
    raise NotImplementedError


__all__ = ["check", "export", "load_config", "lower", "partitioner", "plan", "report", "run"]
