"""`cede export-llm`: settings to a `.pte` with its report."""

from __future__ import annotations

from contextlib import nullcontext
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from cede.files import write_whole
from cede.lacking import archived
from cede.llm.debug import profiled, records
from cede.llm.settings import LlmSettings, load_settings
from cede.llm.stages import Stages
from cede.reporting.forms import form_of, formed

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping
    from pathlib import Path

    from torch.export import ExportedProgram

    from cede.llm.stages import Step
    from cede.lowering import Lowered
    from cede.model import Model
    from cede.quant.pt2e import AnnotationReport
    from cede.quant.source import QuantizationReport

    Quantized = QuantizationReport | AnnotationReport


@dataclass(frozen=True, kw_only=True)
class Exported:
    """What an export gave.

    Attributes:
        methods: the program's methods that compute, each with the bytes of all; {} with
            `export.export_only`.
        quantization: what became of each module, None where nothing was quantized.
        metadata: what the program says about itself.
        path: the file that was written, `.pte` or `.pt2`.
        report: the report that was written, None for none; of several methods each has one, with
            its name before the suffix.
        notes: what the user should know.
        stages: the stages that led there.
    """

    methods: Mapping[str, Lowered]
    quantization: Quantized | None
    metadata: Mapping[str, Any]
    path: Path
    report: Path | None
    notes: tuple[str, ...]
    stages: Stages = field(repr=False)

    @property
    def lowered(self) -> Lowered | None:
        """The program, as its first method; None with `export.export_only`."""
        return next(iter(self.methods.values()), None)

    @property
    def model(self) -> Model:
        """The quantized model with example inputs; built now where the program was in the cache."""
        return self.stages.model


def export_llm(
    settings: LlmSettings | Path | str,
    *,
    step: Step | None = None,
    accept: Callable[[Lowered], None] | None = None,
) -> Exported:
    """Export an LLM as `export_llm`'s config says, and write the `.pte`.

    Where neither the config nor a file or version that it depends on has changed, the program is
    taken from the cache.

    Args:
        settings: from `load_settings`, or what it takes.
        step: gives a context to run the step of that name in.
        accept: called with each method before anything is written; it may raise.

    With `debug.generate_etrecord`, `profile_memory` or `profile_path`, more files are written.

    Raises:
        ConfigError: the config can't be used; all problems are told before any work.
        CheckpointError: the checkpoint can't be read or converted.
        PolicyError: the plan does not meet the policy.
        LoweringError: the program can't be exported, lowered or written; no file is written.
    """
    step = step or (lambda _: nullcontext())
    settings = settings if isinstance(settings, LlmSettings) else load_settings(settings)
    with profiled(settings.llm.debug.profile_path):
        return _exported(settings, step, accept)


def _exported(
    settings: LlmSettings, step: Step, accept: Callable[[Lowered], None] | None
) -> Exported:
    from cede.llm.lowered import lower_stages, told

    stages = Stages(settings, step)
    methods: dict[str, Lowered] = {}
    path = settings.output
    if settings.llm.export.export_only:
        path, known = _only_exported(stages, path, step), told(stages)
    else:
        methods, known = lower_stages(settings, stages, step)
        if accept is not None:
            for lowered in methods.values():
                accept(lowered)
        with step("write"):
            _write(methods, settings, known.quantization)
    return Exported(
        methods=methods, quantization=known.quantization, metadata=known.metadata, path=path,
        stages=stages, report=settings.report if methods else None,
        notes=(*settings.notes, *known.notes),
    )  # fmt: skip


def _only_exported(stages: Stages, path: Path, step: Step) -> Path:
    path = path.with_suffix(".pt2")
    program = stages.program
    with step("write"):
        _save(program, path)
    return path


def _write(
    methods: Mapping[str, Lowered], settings: LlmSettings, quantization: Quantized | None
) -> None:
    first = next(iter(methods.values()))
    beside = records(first, settings)
    for name, lowered in methods.items():
        if settings.report is not None:
            report = replace(lowered.report(), quantization=quantization)
            path = report_of(settings.report, name, methods)
            beside[path] = formed(report, form_of(path)).encode()
    weights = settings.weights if first.weights else None
    first.save(settings.output, weights, adapters=settings.adapters, beside=beside)


def report_of(path: Path, method: str, methods: Collection[str]) -> Path:
    """The file for the report of a method, of a name that is given for all."""
    return path if len(methods) < 2 else path.with_suffix(f".{method}{path.suffix}")


def _save(program: ExportedProgram, path: Path) -> None:
    import torch

    write_whole(path, archived(lambda file: torch.export.save(program, file)))
