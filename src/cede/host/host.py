"""`Host`: every plugin that loaded, every one that failed, and what they bring, as a value."""

from __future__ import annotations

from dataclasses import dataclass
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from cede.config import Config
from cede.errors import ConfigError, PluginError
from cede.host import calls
from cede.host.ability import ability
from cede.host.discover import built_ins, installed, local
from cede.host.load import Plugin, load
from cede.host.names import Names, Rivals, conflict, find, gather
from cede.host.order import by_priority, check_named, partitioners_for, without
from cede.host.records import Conflict, Failure, Loaded
from cede.host.settling import settle

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    import click

    from cede.planning import Plan, Source
    from cede.types import (
        Availability,
        Backend,
        Contest,
        Encoding,
        Finding,
        OpGraph,
        Partitioner,
        Settlement,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Host:
    """Plugins and what they bring. Make one with `Host.load`.

    Attributes:
        plugins: those in use: local files, then installed ones by distribution, then built-ins.
        failures: those that could not be loaded, with the reason and the traceback.
        conflicts: names that several of them bring; such a name stands for none.
    """

    plugins: tuple[Loaded, ...]
    failures: tuple[Failure, ...]
    conflicts: tuple[Conflict, ...]
    _plugins: tuple[Plugin, ...]
    _names: Names
    _rivals: Rivals
    _seconds: float
    _load_seconds: float

    @classmethod
    def load(cls, config: Config | None = None, *, base: Path | None = None) -> Host:
        """Load the built-in plugins, the installed ones, and the files that the config names.

        Each is imported and asked on its own. One that raises, exits, has hooks or records that
        don't fit, or takes longer than `plugins.seconds`, becomes a `Failure`. Code that ends the
        process itself (`os._exit`, a crash in native code) can't be held.

        Args:
            config: None loads everything that is installed.
            base: the folder that `plugins.files` are relative to; None is the current one.

        Raises:
            ConfigError: a file is missing, or `plugins` names a distribution that isn't there.
            PluginError: a plugin that failed is named in `plugins.files`, or `plugins.strict` is
                set and any failed or two clash.
        """
        config = config or Config()
        plugins, failures, named = _load_all(config, base)
        names, rivals = gather(plugins, config.plugins.prefer)
        host = cls(
            plugins=tuple(plugin.loaded for plugin in plugins),
            failures=tuple(failures),
            conflicts=tuple(conflict(key, entries) for key, entries in rivals.items()),
            _plugins=tuple(plugins),
            _names=names,
            _rivals=rivals,
            _seconds=config.seconds,
            _load_seconds=config.plugins.seconds,
        )
        _raise_fatal(host, config.plugins.strict, named)
        return host

    @property
    def modules(self) -> tuple[str, ...]:
        """Names of the modules that the plugins' code is in, each once."""
        return tuple(dict.fromkeys(plugin.module for plugin in self._plugins))

    @property
    def backends(self) -> Mapping[str, Backend]:
        """Backends by name."""
        return self._of("backend")

    @property
    def partitioners(self) -> Mapping[str, Partitioner]:
        """Partitioners by name."""
        return self._of("partitioner")

    @property
    def quantizers(self) -> Mapping[str, Any]:
        """Quantizers by name."""
        return self._of("quantizer")

    @property
    def encodings(self) -> Mapping[str, Encoding]:
        """Weight encodings by name."""
        return self._of("encoding")

    def _of(self, kind: str) -> Mapping[str, Any]:
        return MappingProxyType(
            {name: entry.record for (of, name), entry in self._names.items() if of == kind}
        )

    def source(self, kind: str, name: str) -> Source:
        """Where a record came from.

        Args:
            kind: "backend", "partitioner", "quantizer" or "encoding".
            name: the record's name.

        Raises:
            ConfigError: nobody brings it.
            PluginError: several bring it, or a plugin that failed would have.
        """
        return find(kind, name, self._names, self._rivals, self.failures).source

    def backend(self, name: str) -> Backend:
        """The backend of that name. Raises as `source` does."""
        found = find("backend", name, self._names, self._rivals, self.failures)
        backend: Backend = found.record
        return backend

    def availability(self, name: str) -> Availability:
        """What the backend of that name can do here; see `ability`. Raises as `source` does."""
        return ability(self.backend(name), self._load_seconds)

    def partitioner(self, name: str) -> Partitioner:
        """The partitioner of that name. Raises as `source` does."""
        found = find("partitioner", name, self._names, self._rivals, self.failures)
        partitioner: Partitioner = found.record
        return partitioner

    def partitioners_for(self, config: Config) -> tuple[Partitioner, ...]:
        """The partitioners to ask, in priority order.

        Those of `config.partitioners`, in its order. Where that is empty: backend by backend in
        the order of `config.backends`, all that claim for it; within one backend those of other
        distributions before cede's own (who installs a special one wants it asked first), then
        by name.

        Raises:
            ConfigError: an unknown name, a partitioner whose backend is not in `config.backends`,
                a backend that no partitioner claims for, or nothing named at all.
            PluginError: as `source`, or a backend that can't claim here.
        """
        return partitioners_for(self, config, self._rivals)

    def settle(self, contest: Contest) -> tuple[Settlement, tuple[str, ...]]:
        """Settle with the first plugin that gives a valid answer, cede's own settling last.

        Valid: `check_settlement` finds no fault, and each claimed op is in a part or a loss.

        Returns:
            The settlement, and a warning for each plugin passed over or settling in cede's place.
        """
        return settle(by_priority(self._plugins), contest, self._seconds)

    def review(self, plan: Plan, graph: OpGraph) -> tuple[Finding, ...]:
        """What the plugins find in a plan; a plugin that fails is a finding, a warning, itself."""
        return calls.review(by_priority(self._plugins), plan, graph, self._seconds)

    def lowered(self, plan: Plan, program: Any) -> tuple[Finding, ...]:
        """Show the plugins the lowered program; the findings are about plugins that failed."""
        return calls.lowered(by_priority(self._plugins), plan, program, self._seconds)

    def commands(self, cli: click.Group) -> None:
        """Add the plugins' commands; what a plugin breaks is undone and told on stderr."""
        calls.commands(by_priority(self._plugins), cli, self._load_seconds)


def _load_all(config: Config, base: Path | None) -> tuple[list[Plugin], list[Failure], set[str]]:
    wanted = config.plugins
    if not wanted.seconds > 0:
        raise ConfigError(f"plugins.seconds is {wanted.seconds}: it must be above 0")
    found, unreadable = installed()
    candidates = [*local(wanted.files, base), *found, *built_ins()]
    check_named(config, candidates, unreadable)
    plugins: list[Plugin] = []
    failures = without(unreadable, wanted.disable)
    for candidate in without(candidates, wanted.disable):
        given = load(candidate, wanted.seconds)
        if isinstance(given, Failure):
            failures.append(given)
        else:
            plugins.append(given)
    named = {candidate.distribution for candidate in candidates if candidate.named}
    return plugins, failures, named


def _raise_fatal(host: Host, strict: bool, named: set[str]) -> None:
    fatal = [
        f"{given}\n{given.trace}".rstrip()
        for given in host.failures
        if strict or given.distribution in named
    ]
    fatal += [str(given) for given in host.conflicts if strict]
    if fatal:
        why = "plugins.strict is set" if strict else "it is named in plugins.files"
        raise PluginError("\n".join([*fatal, f"this is fatal because {why}"]))
