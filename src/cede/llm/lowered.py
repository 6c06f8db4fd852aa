"""The methods of an LLM's program lowered, or taken from the cache."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from cede.programs.lowered import Lowered

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from executorch.exir import ExecutorchProgramManager
    from torch.export import ExportedProgram

    from cede.config import Config
    from cede.host import Host
    from cede.llm.settings import LlmSettings
    from cede.llm.stages import Stages, Step
    from cede.planning import Plan
    from cede.quant.pt2e import AnnotationReport
    from cede.quant.source import QuantizationReport
    from cede.reporting import MemoryUse
    from cede.reporting.content import SharedConstant
    from cede.store import Store
    from cede.types import OpGraph

    Hosted = tuple[Host, Config, dict[str, Any]]
    Quantized = QuantizationReport | AnnotationReport


@dataclass(frozen=True, slots=True, kw_only=True)
class Further:
    """What is kept of a method beside the first one; as in `Lowered`."""

    plan: Plan
    graph: OpGraph
    memory: MemoryUse
    constants: tuple[SharedConstant, ...]
    warnings: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Told:
    """What is known of a model beside its program.

    Attributes:
        quantization: what became of each module of each method, None where nothing was quantized.
        metadata: what the program says about itself.
        notes: what the user should know.
    """

    quantization: Quantized | None
    metadata: Mapping[str, Any]
    notes: tuple[str, ...]


def told(stages: Stages) -> Told:
    """What is known of the stages' models."""
    from cede.llm.adapted import reported

    prepared = stages.prepared
    quantized = {name: model.quantization for name, model in stages.models.items()}
    return Told(
        quantization=reported(quantized), metadata=dict(prepared.metadata), notes=prepared.notes
    )


def lower_stages(
    settings: LlmSettings, stages: Stages, step: Step
) -> tuple[dict[str, Lowered], Told]:
    """Every method, by its name, and what is known beside. Raises what `export_llm` raises."""
    from cede import api
    from cede.llm.key import key_of, state_of
    from cede.programs.again import Making, kept

    host, config, options = api.hosted(settings.config)
    made: dict[str, Lowered] = {}

    def anew(store: Store | None) -> Lowered:
        stages.programs  # noqa: B018  (made in a step of its own)
        with step("lower"):
            made.update(_lowered(settings, stages, (host, config, options), store))
        return next(iter(made.values()))

    def beside() -> tuple[Any, ...]:
        return told(stages), tuple(map(_further, list(made.values())[1:]))

    before = state_of(settings)  # somebody may write a checkpoint while it is exported
    making = Making(
        source=lambda: stages.program, lower=anew, beside=beside,
        unchanged=lambda: before is not None and before == state_of(settings),
    )  # fmt: skip
    first, (known, further) = kept(lambda: key_of(settings, host), host, config, making)
    names = [method.name for method in settings.methods]

    def again(name: str) -> Lowered:
        first.edge  # noqa: B018  (lowered anew)
        return made[name]

    found = {name: made.get(name) or _kept(name, first, each, stages, again)
             for name, each in zip(names[1:], further, strict=True)}  # fmt: skip
    return {names[0]: first, **found}, known


def _lowered(
    settings: LlmSettings,
    stages: Stages,
    hosted: tuple[Host, Config, dict[str, Any]],
    store: Store | None,
) -> dict[str, Lowered]:
    from cede.llm.shared import told_if_twice
    from cede.llm.upstream import quiet
    from cede.lowering import lower_methods, lower_program

    metadata, llm = stages.prepared.metadata, settings.llm
    with quiet():
        if llm.multimethod.methods:
            made = lower_methods(
                stages.programs, *hosted, metadata, store,
                share_state=llm.multimethod.share_mutable_buffers,
            )  # fmt: skip
        else:
            one = lower_program(
                stages.program, *hosted, None, metadata, store,
                etrecord=llm.debug.generate_etrecord,
            )  # fmt: skip
            made = {next(iter(stages.programs)): one}
        return {name: told_if_twice(one, stages.models[name], llm) for name, one in made.items()}


def _further(lowered: Lowered) -> Further:
    return Further(
        plan=lowered.plan, graph=lowered.graph, memory=lowered.memory,
        constants=lowered.constants, warnings=lowered.warnings,
    )  # fmt: skip


def _kept(
    name: str, first: Lowered, further: Further, stages: Stages, again: Callable[[str], Lowered]
) -> Lowered:
    return Lowered(
        plan=further.plan, graph=further.graph,
        memory=further.memory, constants=further.constants, warnings=further.warnings,
        emission=_Kept(name, first, stages, again),
    )  # fmt: skip


class _Kept:
    """The emission of a method that was in the cache: the bytes are those of the first."""

    def __init__(
        self, name: str, first: Lowered, stages: Stages, again: Callable[[str], Lowered]
    ) -> None:
        self._name, self._first, self._stages, self._again = name, first, stages, again

    @property
    def buffer(self) -> bytes:
        return self._first.buffer

    @property
    def weights(self) -> bytes:
        return self._first.weights

    @property
    def adapters(self) -> bytes:
        return self._first.adapters

    @property
    def source(self) -> ExportedProgram:
        return self._stages.programs[self._name]

    @property
    def edge(self) -> ExportedProgram:
        return self._again(self._name).edge

    @property
    def executorch(self) -> ExecutorchProgramManager:
        return self._again(self._name).executorch
