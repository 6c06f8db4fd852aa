"""`cede export-llm`: settings to a `.pte` with its report."""

from __future__ import annotations

from contextlib import nullcontext
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from cede.files import write_whole
from cede.llm.settings import LlmSettings, load_settings
from cede.reporting.forms import form_of, formed

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from contextlib import AbstractContextManager
    from pathlib import Path

    from torch.export import ExportedProgram

    from cede.llm.build import Prepared
    from cede.lowering import Lowered
    from cede.model import Model

    Step = Callable[[str], AbstractContextManager[Any]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Exported:
    """What an export gave.

    Attributes:
        lowered: the program, None with `export.export_only`.
        model: the quantized model with example inputs.
        metadata: what the program says about itself.
        path: the file that was written, `.pte` or `.pt2`.
        report: the report that was written, None for none.
        notes: what the user should know.
    """

    lowered: Lowered | None
    model: Model
    metadata: Mapping[str, Any]
    path: Path
    report: Path | None
    notes: tuple[str, ...]


def export_llm(
    settings: LlmSettings | Path | str,
    *,
    step: Step | None = None,
    accept: Callable[[Lowered], None] | None = None,
) -> Exported:
    """Export an LLM as `export_llm`'s config says, and write the `.pte`.

    Args:
        settings: from `load_settings`, or what it takes.
        step: gives a context to run the step of that name in.
        accept: called with the program before anything is written; it may raise.

    Raises:
        ConfigError: the config can't be used; all problems are told before any work.
        CheckpointError: the checkpoint can't be read or converted.
        PolicyError: the plan does not meet the policy.
        LoweringError: the program can't be exported, lowered or written; no file is written.
    """
    step = step or (lambda _: nullcontext())
    settings = settings if isinstance(settings, LlmSettings) else load_settings(settings)
    prepared, model, program = _exported(settings, step)
    lowered, path = None, settings.output
    if settings.llm.export.export_only:
        path = path.with_suffix(".pt2")
        with step("write"):
            _save(program, path)
    else:
        with step("lower"):
            lowered = _lowered(program, settings, prepared)
        if accept is not None:
            accept(lowered)
        with step("write"):
            _write(lowered, settings, model)
    return Exported(
        lowered=lowered, model=model, metadata=prepared.metadata, path=path,
        report=settings.report if lowered else None, notes=(*settings.notes, *prepared.notes),
    )  # fmt: skip


def _exported(settings: LlmSettings, step: Step) -> tuple[Prepared, Model, ExportedProgram]:
    from cede.llm.build import model_of, prepare
    from cede.llm.delegates import products
    from cede.llm.products import with_inferred_sizes
    from cede.llm.upstream import quiet

    with step("load"):
        prepared = prepare(settings)
    with step("quantize"):
        model = model_of(settings, prepared)
    with step("export"), quiet():
        program = exported(model)
        if products(settings.config):
            program = with_inferred_sizes(program)
    return prepared, model, program


def _lowered(program: ExportedProgram, settings: LlmSettings, prepared: Prepared) -> Lowered:
    from cede import api
    from cede.llm.upstream import quiet

    with quiet():
        return api.lower(program, None, settings.config, metadata=prepared.metadata)


def _write(lowered: Lowered, settings: LlmSettings, model: Model) -> None:
    if settings.report is not None:
        report = replace(lowered.report(), quantization=model.quantization)
        write_whole(settings.report, formed(report, form_of(settings.report)).encode())
    lowered.save(settings.output, settings.weights if lowered.weights else None)


def exported(model: Model) -> ExportedProgram:
    """The exported program; attention of torch is exported as matrix products."""
    from torch.nn.attention import SDPBackend, sdpa_kernel

    from cede.llm.upstream import without_transposes

    with sdpa_kernel([SDPBackend.MATH]):
        return without_transposes(model.export())


def _save(program: ExportedProgram, path: Path) -> None:
    import io

    import torch

    made = io.BytesIO()
    torch.export.save(program, made)
    write_whole(path, made.getvalue())
