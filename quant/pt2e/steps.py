"""The steps of torchao's pt2e flow, each with an error of its own."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import torch
from torch.export import ExportedProgram
from torchao.quantization.pt2e.quantize_pt2e import convert_pt2e, prepare_pt2e

from cede.errors import CedeError, ConfigError, LoweringError
from cede.quant.pt2e.annotate import Chosen
from cede.quant.pt2e.calibration import calls
from cede.quant.pt2e.rows import AnnotationReport
from cede.quiet import logging_kept

if TYPE_CHECKING:
    from collections.abc import Iterator

    from cede.quant.pt2e.calibration import Calibration
    from cede.quant.pt2e.choice import Choice
    from cede.quant.pt2e.program import Progress
    from cede.types import Quantizer


def quantized(
    model: torch.nn.Module | ExportedProgram,
    args: tuple[Any, ...],
    record: Quantizer,
    choose: Choice,
    per_channel: bool,
    calibration: Calibration | None,
    dynamic_shapes: Any,
    progress: Progress | None,
) -> tuple[ExportedProgram, AnnotationReport]:
    """As `cede.quantize_program`, with everything looked up."""
    floats = _exported(model, args, dynamic_shapes)
    with _step(f"the {record.name} quantizer can't annotate the program"), torch.no_grad():
        with logging_kept():
            inner = {mode: record.make(mode, per_channel) for mode in choose.modes}
        quantizer = Chosen(record.name, inner, choose)
        prepared = prepare_pt2e(floats.module(check_guards=False), quantizer)
    choose.insist()
    count = _calibrated(prepared, calibration, args, progress)
    with _step("torchao can't convert the program"), torch.no_grad():
        converted = convert_pt2e(prepared, fold_quantize=record.fold)
    with _step("torch.export can't export the quantized program"), torch.no_grad():
        program = torch.export.export(converted, args, dynamic_shapes=dynamic_shapes)
    warnings = []
    if calibration is None and "static" in choose.modes:
        warnings.append(
            "static quantization without calibration data: scales come from the example inputs"
            " alone; give calibration (quantize.calibration) with inputs like those to come"
        )
    if not any(row.scheme for row in quantizer.rows):
        warnings.append(f"the {record.name} quantizer annotated no op: the program stays in float")
    report = AnnotationReport(
        quantizer=record.name,
        per_channel=per_channel,
        calls=count,
        rows=quantizer.rows,
        warnings=tuple(warnings),
    )
    return program, report


def _exported(
    model: torch.nn.Module | ExportedProgram, args: tuple[Any, ...], dynamic_shapes: Any
) -> ExportedProgram:
    if isinstance(model, ExportedProgram):
        if model.range_constraints and dynamic_shapes is None:
            raise ConfigError(
                "the exported program has dynamic shapes, which would be lost: give the module"
            )
        return model
    if model.training:
        raise ConfigError("the model is in training mode: call model.eval() first")
    with _step("torch.export can't export the model"), torch.no_grad():
        return torch.export.export(model, args, dynamic_shapes=dynamic_shapes)


def _calibrated(
    prepared: torch.fx.GraphModule,
    calibration: Calibration | None,
    args: tuple[Any, ...],
    progress: Progress | None,
) -> int:
    """Run the calls through the observers; how many there were."""
    done = 0
    with _step("calibration failed"), torch.no_grad():
        found, total = calls([args] if calibration is None else calibration, args)
        for done, call in enumerate(found, start=1):
            prepared(*call)
            if progress is not None:
                progress(done, total)
    return done


@contextmanager
def _step(what: str) -> Iterator[None]:
    try:
        yield
    except CedeError:
        raise
    except Exception as error:
        raise LoweringError(f"{what}: {type(error).__name__}: {error}") from error
