"""A quantized model beside the float one, on the same inputs."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import torch
from torch.utils import _pytree as pytree

from cede.quant.noise import sqnr

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from cede.quant.source.rows import QuantizationReport


def compared(
    report: QuantizationReport,
    before: torch.nn.Module,
    after: torch.nn.Module,
    args: Sequence[Any],
    kwargs: Mapping[str, Any],
) -> QuantizationReport:
    """The report with signal to noise of each quantized module's output, and of the model's.

    Each module's output is that of its own model, so errors of the modules before it count.

    Args:
        report: of the quantization.
        before: the float model, in eval mode.
        after: the quantized one.
        args: positional inputs.
        kwargs: keyword inputs.
    """
    paths = [row.module for row in report.rows if row.scheme]
    first, wanted = _outputs(before, paths, args, kwargs)
    second, got = _outputs(after, paths, args, kwargs)
    rows = tuple(
        replace(row, output_sqnr=sqnr(first[row.module], second[row.module]))
        if row.module in first and row.module in second
        else row
        for row in report.rows
    )
    return replace(report, rows=rows, output_sqnr=sqnr(wanted, got))


def compared_programs(
    before: torch.export.ExportedProgram, after: torch.export.ExportedProgram, args: Sequence[Any]
) -> float:
    """Signal to quantization noise of a quantized program's outputs in dB."""
    first, second = (
        _outputs(program.module(check_guards=False), (), args, {})[1] for program in (before, after)
    )
    return sqnr(first, second)


def _outputs(
    model: torch.nn.Module, paths: Sequence[str], args: Sequence[Any], kwargs: Mapping[str, Any]
) -> tuple[dict[str, torch.Tensor], torch.Tensor]:
    """What these modules gave in their last call, and all of the model's float outputs, flat."""
    found: dict[str, torch.Tensor] = {}

    def keep(path: str) -> Any:
        def hook(module: torch.nn.Module, given: Any, result: Any) -> None:
            found[path] = result.detach().clone()

        return hook

    hooks = [model.get_submodule(path).register_forward_hook(keep(path)) for path in paths]
    try:
        with torch.no_grad():
            given = pytree.tree_map(_copied, (tuple(args), dict(kwargs)))
            results = pytree.tree_leaves(model(*given[0], **given[1]))
    finally:
        for hook in hooks:
            hook.remove()
    flat = [r.detach().flatten() for r in results if torch.is_tensor(r) and r.is_floating_point()]
    return found, torch.cat(flat) if flat else torch.zeros(0)


def _copied(value: Any) -> Any:
    return value.clone() if isinstance(value, torch.Tensor) else value
