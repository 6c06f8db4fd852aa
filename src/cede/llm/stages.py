"""The stages from settings to an exported program."""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable
    from contextlib import AbstractContextManager

    from torch.export import ExportedProgram

    from cede.llm.build import Prepared
    from cede.llm.settings import LlmSettings
    from cede.model import Model

    Step = Callable[[str], AbstractContextManager[Any]]


class Stages:
    """From settings to a model and its exported program, each made once, when it is asked for."""

    def __init__(self, settings: LlmSettings, step: Step) -> None:
        self._settings, self._step = settings, step

    @cached_property
    def prepared(self) -> Prepared:
        """The model on the meta device."""
        from cede.llm.build import prepare

        with self._step("load"):
            return prepare(self._settings)

    @cached_property
    def models(self) -> dict[str, Model]:
        """The quantized model of each method, over the same weights."""
        from cede.llm.build import base_model, method_model

        prepared, settings = self.prepared, self._settings
        with self._step("quantize"):
            base = base_model(settings, prepared)
            return {
                each.name: method_model(settings, prepared, base, each) for each in settings.methods
            }

    @property
    def model(self) -> Model:
        """The quantized model of the first method."""
        return next(iter(self.models.values()))

    @cached_property
    def programs(self) -> dict[str, ExportedProgram]:
        """The exported program of each method."""
        from cede.llm.delegates import products
        from cede.llm.products import with_inferred_sizes
        from cede.llm.upstream import quiet

        models = self.models
        with self._step("export"), quiet():
            made = {name: exported(model) for name, model in models.items()}
            if products(self._settings.config):
                made = {name: with_inferred_sizes(program) for name, program in made.items()}
            return made

    @property
    def program(self) -> ExportedProgram:
        """The exported program of the first method."""
        return next(iter(self.programs.values()))


def exported(model: Model) -> ExportedProgram:
    """The exported program; attention of torch is exported as matrix products."""
    from torch.nn.attention import SDPBackend, sdpa_kernel

    from cede.llm.upstream import without_transposes

    with sdpa_kernel([SDPBackend.MATH]):
        return without_transposes(model.export())
