"""The steps of torchao's pt2e flow, each with an error of its own."""

from __future__ import annotations

from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import torch
from torch.export import ExportedProgram
from torchao.quantization.pt2e.quantize_pt2e import prepare_pt2e

from cede.config import check_options
from cede.errors import CedeError, ConfigError, LoweringError
from cede.lowering.guide import places
from cede.quant.pt2e.annotate import Chosen
from cede.quant.pt2e.assign import Assignment
from cede.quant.pt2e.calibration import calls
from cede.quant.pt2e.convert import convert
from cede.quant.pt2e.rows import AnnotationReport
from cede.quiet import logging_kept

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator

    from cede.config import Config
    from cede.host import Host
    from cede.quant.pt2e.calibration import Calibration
    from cede.quant.pt2e.choice import Choice
    from cede.quant.pt2e.program import Progress
    from cede.quant.pt2e.rows import AnnotatedRow
    from cede.types import Inputs, Quantizer


@dataclass(frozen=True, slots=True, kw_only=True)
class Way:
    """How a program is to be quantized.

    Attributes:
        records: the quantizers, each of another backend.
        choose: the mode of an op.
        per_channel: whether weights have one scale a channel.
        host: the plugins.
        config: by which the float program is planned first; None goes without a plan.
    """

    records: tuple[Quantizer, ...]
    choose: Choice
    per_channel: bool
    host: Host
    config: Config | None = None

    @property
    def names(self) -> str:
        """The quantizers' names."""
        return ", ".join(record.name for record in self.records)

    def assignment(self, floats: ExportedProgram) -> Assignment:
        """Plan the float program and share out its ops.

        Raises:
            CedeError: it can't be planned.
        """
        if self.config is None:
            return Assignment(self.records, self.choose, None)
        options = check_options(self.config, self.host.backends, self.host.backend)
        found = places(floats, self.host, self.config, options)
        return Assignment(self.records, self.choose, found)


def quantized(
    model: torch.nn.Module | ExportedProgram,
    example: Inputs,
    way: Way,
    calibration: Calibration | None,
    dynamic_shapes: Any,
    progress: Progress | None,
) -> tuple[ExportedProgram, AnnotationReport]:
    """As `cede.quantize_program`, with everything looked up."""
    floats = _exported(model, example, dynamic_shapes)
    asked = way.assignment(floats)
    with _step(f"the {way.names} quantizer can't annotate the program"), torch.no_grad():
        with logging_kept():
            inner = {
                (record.name, mode): record.make(mode, way.per_channel)
                for record in way.records
                for mode in way.choose.modes
                if mode in record.modes
            }
        quantizer = Chosen(way.records, inner, asked)
        prepared = prepare_pt2e(floats.module(check_guards=False), quantizer)
    way.choose.insist()
    with _kept(prepared, set(floats.graph_signature.buffers_to_mutate.values())):
        count = _calibrated(prepared, calibration, example, progress)
    with _step("torchao can't convert the program"), torch.no_grad():
        converted = convert(prepared, way.records, asked)
    with _step("torch.export can't export the quantized program"), torch.no_grad():
        program = _export(converted, example, dynamic_shapes)
    report = AnnotationReport(
        quantizer=way.names,
        per_channel=way.per_channel,
        calls=count,
        rows=quantizer.rows,
        guided=asked.guided,
        warnings=tuple(_warnings(way, quantizer.rows, calibration is None)),
    )
    return program, report


def _warnings(way: Way, rows: tuple[AnnotatedRow, ...], uncalibrated: bool) -> Iterator[str]:
    if uncalibrated and "static" in way.choose.modes:
        yield (
            "static quantization without calibration data: scales come from the example inputs"
            " alone; give calibration (quantize.calibration) with inputs like those to come"
        )
    for record in way.records:
        if not any(row.quantizer == record.name for row in rows):
            yield (
                f"the {record.name} quantizer annotated no op: "
                + ("the program stays in float" if len(way.records) == 1 else "see the notes")
            )


def _exported(
    model: torch.nn.Module | ExportedProgram, example: Inputs, dynamic_shapes: Any
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
        return _export(model, example, dynamic_shapes)


def _export(module: torch.nn.Module, example: Inputs, dynamic_shapes: Any) -> ExportedProgram:
    given = (example.args, dict(example.kwargs))
    return torch.export.export(module, *given, dynamic_shapes=dynamic_shapes)


@contextmanager
def _kept(prepared: torch.fx.GraphModule, names: Collection[str]) -> Iterator[None]:
    """The program's state, such as caches, as it was before the calls."""
    before = {name: value.clone() for name, value in prepared.named_buffers() if name in names}
    yield
    with torch.no_grad():
        for name, value in before.items():
            prepared.get_buffer(name).copy_(value)


def _calibrated(
    prepared: torch.fx.GraphModule,
    calibration: Calibration | None,
    example: Inputs,
    progress: Progress | None,
) -> int:
    """Run the calls through the observers; how many there were."""
    done = 0
    with _step("calibration failed"), torch.no_grad():
        found, total = calls([example] if calibration is None else calibration, example)
        for done, call in enumerate(found, start=1):
            prepared(*call.args, **call.kwargs)
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
