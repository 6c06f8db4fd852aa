"""Lowering, where nothing that it depends on has changed, from the cache."""

from __future__ import annotations

from dataclasses import replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

from cede.errors import LoweringError
from cede.host.records import BUILT_IN
from cede.programs import entry
from cede.programs.key import key_of
from cede.programs.lowered import Lowered
from cede.store import Store
from cede.types import Code

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from executorch.exir import ExecutorchProgramManager
    from torch.export import ExportedProgram

    from cede.config import Config
    from cede.host import Host
    from cede.planning import Plan
    from cede.types import Loss, Refusal

_FAILED = (Code.PLUGIN_FAILED, Code.COMPILE_FAILED)
_OBSERVERS = {"cede_lowered", "cede_review"}


def lower(
    program: ExportedProgram,
    host: Host,
    config: Config,
    options: Mapping[str, Any],
    replay: Plan | None = None,
    metadata: Mapping[str, Any] | None = None,
) -> Lowered:
    """As `cede.lowering.lower_program`, or what that gave for an equal program before.

    A plugin that wants to see what is lowered sees each program; so nothing is taken from the cache
    then.
    """

    def anew(store: Store | None = None) -> Lowered:
        from cede.lowering import lower_program

        return lower_program(program, host, config, options, replay, metadata, store)

    settings = config.lowering
    if not settings.cache:
        return anew()
    store = Store.at(settings.cache_folder, settings.cache_bytes)
    key = None if _observed(host) else key_of(program, host, config, replay, metadata)
    found = _found(store, key) if key is not None else None
    if found is not None:
        return Lowered(
            plan=found.plan, graph=found.graph, source=program, memory=found.memory,
            constants=found.constants, warnings=(*found.warnings, *store.warnings),
            emission=_Again(anew, found),
        )  # fmt: skip
    made = anew(store)
    if key is not None and _lasting(made, host):
        store.put(key, *entry.write(made))
    return replace(made, warnings=(*made.warnings, *store.warnings))


class _Again:
    """What the cache has, and the rest made anew."""

    def __init__(self, anew: Callable[[], Lowered], found: entry.Entry) -> None:
        self._make, self._found = anew, found

    @cached_property
    def buffer(self) -> bytes:
        return bytes(self._found.data)

    @cached_property
    def weights(self) -> bytes:
        return bytes(self._found.weights)

    @property
    def edge(self) -> ExportedProgram:
        return self._anew.edge

    @property
    def executorch(self) -> ExecutorchProgramManager:
        return self._anew.executorch

    @cached_property
    def _anew(self) -> Lowered:
        made = self._make()
        if made.plan != self._found.plan:
            raise LoweringError(
                "the program was changed after it was lowered: lowered anew it has another plan"
            )
        return made


def _observed(host: Host) -> bool:
    return any(
        _OBSERVERS & set(loaded.hooks) for loaded in host.plugins if loaded.distribution != BUILT_IN
    )


def _found(store: Store, key: str) -> entry.Entry | None:
    data = store.get(key)
    if data is None:
        return None
    try:
        return entry.read(data)
    except Exception as error:  # it is whole, but not ours
        store.drop(key, f"{type(error).__name__}: {error}")
        return None


def _lasting(made: Lowered, host: Host) -> bool:
    """Whether it can be kept: nothing failed in it that may go well next time."""
    plan = made.plan
    pure = all(host.backend(given.backend).pure for given in plan.delegations)
    rows: list[Refusal | Loss] = [*plan.refusals, *plan.losses]
    return pure and not any(row.reason.code in _FAILED for row in rows)
