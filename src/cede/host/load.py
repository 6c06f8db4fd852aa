"""Loading one plugin on its own: import, hooks, records. Nothing of a failed one stays."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from functools import partial
from types import ModuleType
from typing import TYPE_CHECKING, Any

import pluggy

import cede.hookspec
from cede.host.guard import Trouble, guarded
from cede.host.records import Failure, Loaded
from cede.host.validate import KINDS, checked
from cede.nearest import suggestion

if TYPE_CHECKING:
    from collections.abc import Callable

    from cede.host.discover import Candidate


HOOKS = tuple(sorted(name for name in vars(cede.hookspec) if name.startswith("cede_")))
"""The names of all hooks."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Plugin:
    """A plugin that loaded.

    Attributes:
        loaded: what it is.
        manager: knows this plugin only.
        records: what it brought, as (kind, name, record).
    """

    loaded: Loaded
    manager: pluggy.PluginManager
    records: tuple[tuple[str, str, Any], ...]

    @property
    def module(self) -> str:
        """Name of the module that its code is in."""
        (given,) = self.manager.get_plugins()
        return given.__name__ if isinstance(given, ModuleType) else type(given).__module__

    def implementations(self, hook: str) -> list[pluggy.HookImpl]:
        """Its functions for a hook."""
        caller: pluggy.HookCaller = getattr(self.manager.hook, hook)
        return caller.get_hookimpls()


def _new_manager() -> pluggy.PluginManager:
    manager = pluggy.PluginManager(cede.hookspec.PROJECT)
    manager.add_hookspecs(cede.hookspec)
    return manager


def load(candidate: Candidate, seconds: float) -> Plugin | Failure:
    """Import a plugin, check its hooks, collect and check its records.

    Args:
        candidate: the plugin.
        seconds: how long the import, and each collecting hook, may take.

    Raises:
        KeyboardInterrupt: the user's own wish to stop.
    """
    before = set(sys.modules)
    module = guarded(candidate.load, seconds, "plugins.seconds")
    if isinstance(module, Trouble):
        _forget(candidate.module, before)
        return _failure(candidate, "import", module)
    # one manager for each plugin: what doesn't fit leaves no trace in the others'
    manager = _new_manager()
    hooks = guarded(lambda: _register(manager, module), seconds, "plugins.seconds")
    if isinstance(hooks, Trouble):
        return _failure(candidate, "register", hooks)
    records: list[tuple[str, str, Any]] = []
    for hook, kind in KINDS.items():
        for implementation in getattr(manager.hook, hook).get_hookimpls():
            trouble = guarded(
                partial(_collect, implementation.function, kind, records),
                seconds,
                "plugins.seconds",
            )
            if isinstance(trouble, Trouble):
                return _failure(candidate, hook, trouble, records)
    loaded = Loaded(
        name=candidate.name,
        distribution=candidate.distribution,
        version=candidate.version,
        hooks=hooks,
    )
    return Plugin(loaded=loaded, manager=manager, records=tuple(records))


def _collect(call: Callable[[], Any], kind: str, into: list[tuple[str, str, Any]]) -> None:
    checked(kind, call(), into)


def _register(manager: pluggy.PluginManager, module: Any) -> tuple[str, ...]:
    if isinstance(module, type):
        raise TypeError(f"{module.__qualname__} is a class: name a module or an instance")
    manager.register(module)
    callers = manager.get_hookcallers(module) or []
    if not callers:
        raise TypeError("it has no function marked with @cede.hookimpl")
    for caller in callers:
        for implementation in caller.get_hookimpls():
            _check(caller, implementation)
    manager.check_pending()
    return tuple(sorted(caller.name for caller in callers))


def _check(caller: pluggy.HookCaller, implementation: pluggy.HookImpl) -> None:
    if implementation.hookwrapper or implementation.wrapper:
        raise TypeError(f"{caller.name} is a wrapper; cede's hooks collect or observe")
    if not caller.has_spec() and not implementation.optionalhook:
        hint = suggestion(caller.name, HOOKS)
        raise pluggy.PluginValidationError(
            implementation.plugin, f"no hook is named {caller.name}: {hint}"
        )


def _failure(
    candidate: Candidate,
    stage: str,
    trouble: Trouble,
    records: list[tuple[str, str, Any]] | None = None,
) -> Failure:
    own = candidate.name.rpartition(".")[2]  # "npu" of the built-in "backends.npu"
    names = dict.fromkeys([own, *(name for _, name, _ in records or ())])
    return Failure(
        plugin=candidate.name,
        distribution=candidate.distribution,
        version=candidate.version,
        stage=stage,
        reason=trouble.reason,
        trace=trouble.trace,
        names=tuple(names),
    )


def _forget(module: str, before: set[str]) -> None:
    """Drop what a failed import left of the plugin's own package, so that a retry starts clean.

    Modules of other packages stay: half of them could not be imported a second time.
    """
    root = module.rpartition(".")[0] or module
    for name in [name for name in sys.modules if name not in before]:
        if name == root or name.startswith(f"{root}."):
            del sys.modules[name]
            parent, _, last = name.rpartition(".")
            if parent in sys.modules:
                vars(sys.modules[parent]).pop(last, None)
