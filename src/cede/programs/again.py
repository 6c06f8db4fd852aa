"""Lowering, where nothing that it depends on has changed, from the cache."""

from __future__ import annotations

from dataclasses import dataclass, replace
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


@dataclass(frozen=True, slots=True, kw_only=True)
class Making:
    """How a program is lowered where the cache lacks it.

    Attributes:
        source: gives the exported program.
        lower: lowers it, with the delegates of a store.
        beside: records to keep beside the program, asked for once it is lowered.
        unchanged: whether it was made from what its key tells.
    """

    source: Callable[[], ExportedProgram]
    lower: Callable[[Store | None], Lowered]
    beside: Callable[[], tuple[Any, ...]] = tuple
    unchanged: Callable[[], bool] = lambda: True


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

    def anew(store: Store | None) -> Lowered:
        from cede.lowering import lower_program

        return lower_program(program, host, config, options, replay, metadata, store)

    making = Making(source=lambda: program, lower=anew)
    return kept(lambda: key_of(program, host, config, replay, metadata), host, config, making)[0]


def kept(
    key: Callable[[], str | None], host: Host, config: Config, making: Making
) -> tuple[Lowered, tuple[Any, ...]]:
    """The program kept under a key, or the one made now, and what is kept beside it.

    Args:
        key: gives the key, None where what is made can't be known again; asked if there is a cache.
        host: the loaded plugins.
        config: whether and where there is a cache.
        making: how the program is made.
    """
    settings = config.lowering
    if not settings.cache:
        return making.lower(None), making.beside()
    store = Store.at(settings.cache_folder, settings.cache_bytes)
    known = None if _observed(host) else key()
    found = _found(store, known) if known is not None else None
    if found is not None:
        lowered = Lowered(
            plan=found.plan, graph=found.graph, memory=found.memory, constants=found.constants,
            warnings=(*found.warnings, *store.warnings), emission=_Again(making, found),
        )  # fmt: skip
        return lowered, found.beside
    made = making.lower(store)
    beside = making.beside()
    if known is not None and _lasting(made, host) and making.unchanged():
        store.put(known, *entry.write(made, beside))
    return replace(made, warnings=(*made.warnings, *store.warnings)), beside


class _Again:
    """What the cache has, and the rest made anew."""

    def __init__(self, making: Making, found: entry.Entry) -> None:
        self._making, self._found = making, found

    @cached_property
    def buffer(self) -> bytes:
        return bytes(self._found.data)

    @cached_property
    def weights(self) -> bytes:
        return bytes(self._found.weights)

    @cached_property
    def adapters(self) -> bytes:
        return bytes(self._found.adapters)

    @cached_property
    def source(self) -> ExportedProgram:
        return self._making.source()

    @property
    def edge(self) -> ExportedProgram:
        return self._anew.edge

    @property
    def executorch(self) -> ExecutorchProgramManager:
        return self._anew.executorch

    @cached_property
    def _anew(self) -> Lowered:
        made = self._making.lower(None)
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
