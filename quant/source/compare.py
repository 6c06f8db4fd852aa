"""A quantized model beside the float one, on the same inputs."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import torch

from cede.quant.calls import all_inputs, floats
from cede.quant.noise import sqnr

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from cede.quant.calls import Call
    from cede.quant.source.rows import QuantizationReport
    from cede.types import Inputs


def compared(
    report: QuantizationReport,
    before: torch.nn.Module,
    after: torch.nn.Module,
    calls: Iterable[Call],
    kwargs: Mapping[str, Any],
) -> QuantizationReport:
    """The report with signal to noise of each quantized module's output, and of the model's.

    Each module's output is that of its own model, so errors of the modules before it count. State
    that the models write is as it was before, afterwards and between them.

    Args:
        report: of the quantization.
        before: the float model, in eval mode.
        after: the quantized one.
        calls: what each call is given: positional inputs, keyword inputs, or `Inputs`.
        kwargs: keyword inputs, for calls that have positional ones alone.
    """
    paths, calls = [row.module for row in report.rows if row.scheme], all_inputs(calls, kwargs)
    state = [(buffer, buffer.detach().clone()) for buffer in before.buffers()]
    found: list[dict[str, list[torch.Tensor]]] = [{}, {}]
    for model, into in zip((before, after), found, strict=True):
        for call in calls:
            _run(model, paths, call, into)
        _restore(state)  # the models share it
    noise = {
        path: sqnr(torch.cat(found[0][path]), torch.cat(found[1][path]))
        for path in found[0]
        if path in found[1]
    }
    rows = tuple(replace(row, output_sqnr=noise.get(f".{row.module}")) for row in report.rows)
    return replace(report, rows=rows, output_sqnr=noise[""])


def _restore(state: Iterable[tuple[torch.Tensor, torch.Tensor]]) -> None:
    with torch.no_grad():
        for buffer, first in state:
            if not torch.equal(buffer, first):
                buffer.copy_(first)


def compared_programs(
    before: torch.export.ExportedProgram, after: torch.export.ExportedProgram, call: Inputs
) -> float:
    """Signal to quantization noise of a quantized program's outputs in dB."""
    found: list[dict[str, list[torch.Tensor]]] = [{}, {}]
    for program, into in zip((before, after), found, strict=True):
        _run(program.module(check_guards=False), (), call, into)
    return sqnr(*(torch.cat(one[""]) for one in found))


def _run(
    model: torch.nn.Module,
    paths: Sequence[str],
    call: Inputs,
    found: dict[str, list[torch.Tensor]],
) -> None:
    """Add what these modules gave, under "." and path, and the model's float outputs, under ""."""

    def keep(path: str) -> Any:
        def hook(module: torch.nn.Module, given: Any, result: Any) -> None:
            found.setdefault(f".{path}", []).append(result.detach().flatten().clone())

        return hook

    hooks = [model.get_submodule(path).register_forward_hook(keep(path)) for path in paths]
    try:
        found.setdefault("", []).append(floats(model, call))
    finally:
        for hook in hooks:
            hook.remove()
