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
    from collections.abc import Callable, Mapping
    from pathlib import Path

    from torch.export import ExportedProgram

    from cede.llm.stages import Step
    from cede.lowering import Lowered
    from cede.model import Model
    from cede.quant.pt2e import AnnotationReport
    from cede.quant.source import QuantizationReport
    from cede.store import Store

    Quantized = QuantizationReport | AnnotationReport
    Told = tuple[Quantized | None, Mapping[str, Any], tuple[str, ...]]


@dataclass(frozen=True, kw_only=True)
class Exported:
    """What an export gave.

    Attributes:
        lowered: the program, None with `export.export_only`.
        quantization: what became of each module, None where nothing was quantized.
        metadata: what the program says about itself.
        path: the file that was written, `.pte` or `.pt2`.
        report: the report that was written, None for none.
        notes: what the user should know.
        stages: the stages that led there.
    """

    lowered: Lowered | None
    quantization: Quantized | None
    metadata: Mapping[str, Any]
    path: Path
    report: Path | None
    notes: tuple[str, ...]
    stages: Stages = field(repr=False)

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
        accept: called with the program before anything is written; it may raise.

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
    stages = Stages(settings, step)
    lowered, path = None, settings.output
    if settings.llm.export.export_only:
        path, told = _only_exported(stages, path, step), _told(stages)
    else:
        lowered, told = _lowered(settings, stages, step)
        if accept is not None:
            accept(lowered)
        beside = records(lowered, settings)
        with step("write"):
            _write(lowered, settings, told[0], beside)
    quantization, metadata, notes = told
    return Exported(
        lowered=lowered, quantization=quantization, metadata=metadata, path=path, stages=stages,
        report=settings.report if lowered else None, notes=(*settings.notes, *notes),
    )  # fmt: skip


def _only_exported(stages: Stages, path: Path, step: Step) -> Path:
    path = path.with_suffix(".pt2")
    program = stages.program
    with step("write"):
        _save(program, path)
    return path


def _told(stages: Stages) -> Told:
    """What is known of a model beside its program."""
    prepared = stages.prepared
    return stages.model.quantization, dict(prepared.metadata), prepared.notes


def _lowered(settings: LlmSettings, stages: Stages, step: Step) -> tuple[Lowered, Told]:
    from cede import api
    from cede.llm.key import key_of, state_of
    from cede.llm.shared import told_if_twice
    from cede.llm.upstream import quiet
    from cede.programs.again import Making, kept

    host, config, options = api.hosted(settings.config)

    def anew(store: Store | None) -> Lowered:
        program, metadata = stages.program, stages.prepared.metadata
        from cede.lowering import lower_program

        with step("lower"), quiet():
            made = lower_program(
                program, host, config, options, None, metadata, store,
                etrecord=settings.llm.debug.generate_etrecord,
            )  # fmt: skip
            return told_if_twice(made, stages.model, settings.llm)

    before = state_of(settings)  # somebody may write a checkpoint while it is exported
    making = Making(
        source=lambda: stages.program, lower=anew, beside=lambda: _told(stages),
        unchanged=lambda: before is not None and before == state_of(settings),
    )  # fmt: skip
    lowered, told = kept(lambda: key_of(settings, host), host, config, making)
    return lowered, told


def _write(
    lowered: Lowered,
    settings: LlmSettings,
    quantization: Quantized | None,
    beside: dict[Path, bytes],
) -> None:
    if settings.report is not None:
        report = replace(lowered.report(), quantization=quantization)
        beside[settings.report] = formed(report, form_of(settings.report)).encode()
    weights = settings.weights if lowered.weights else None
    lowered.save(settings.output, weights, adapters=settings.adapters, beside=beside)


def _save(program: ExportedProgram, path: Path) -> None:
    import torch

    write_whole(path, archived(lambda file: torch.export.save(program, file)))
