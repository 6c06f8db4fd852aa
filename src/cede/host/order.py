"""What the config says about plugins: which are left out, and who is asked before whom."""

from __future__ import annotations

from difflib import get_close_matches
from typing import TYPE_CHECKING, Protocol, TypeVar

from cede.errors import ConfigError, PluginError
from cede.host.names import conflict
from cede.host.records import BUILT_IN, normal

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from cede.config import Config, PluginsConfig
    from cede.host.host import Host
    from cede.host.load import Plugin
    from cede.host.names import Rivals
    from cede.types import Partitioner


class _Distributed(Protocol):
    @property
    def distribution(self) -> str:
        """Name of the distribution."""


D = TypeVar("D", bound=_Distributed)


def check_named(
    wanted: PluginsConfig, candidates: Sequence[_Distributed], failures: Sequence[_Distributed]
) -> None:
    """Check the distributions that `plugins.disable` and `plugins.prefer` name.

    Raises:
        ConfigError: no plugin of that distribution is there.
    """
    known = sorted({given.distribution for given in (*candidates, *failures)})
    normals = {normal(name): name for name in known}
    keyed = [("plugins.disable", name) for name in wanted.disable]
    keyed += [(f"plugins.prefer.{key}", name) for key, name in wanted.prefer.items()]
    for key, name in keyed:
        if normal(name) not in normals:
            near = get_close_matches(normal(name), list(normals), 1)
            guess = f"did you mean {normals[near[0]]!r}? " if near else ""
            raise ConfigError(
                f"{key} names {name!r}, and no installed distribution of that name brings cede"
                f" plugins: {guess}known: {', '.join(known)}"
            )


def without(given: Iterable[D], disabled: Sequence[str]) -> list[D]:
    """Those whose distribution is not disabled."""
    out = {normal(name) for name in disabled}
    return [one for one in given if normal(one.distribution) not in out]


def by_priority(plugins: Sequence[Plugin]) -> list[Plugin]:
    """Local files and other distributions before cede's own, else in the order they have."""
    return sorted(plugins, key=lambda plugin: plugin.loaded.distribution == BUILT_IN)


def partitioners_for(host: Host, config: Config, rivals: Rivals) -> tuple[Partitioner, ...]:
    """See `Host.partitioners_for`."""
    if not config.backends and not config.partitioners:
        raise ConfigError(
            f"backends is empty: name at least one of {', '.join(host.backends) or 'none'}"
        )
    for name in config.backends:
        host.backend(name)
    backends = list(dict.fromkeys(config.backends))
    if config.partitioners:
        chosen = _chosen(host, config)
    else:
        chosen = [one for name in backends for one in _claiming_for(host, name, rivals)]
    asked = {partitioner.backend for partitioner in chosen}
    for name in config.backends:
        if name not in asked:
            of = "partitioners" if config.partitioners else "installed partitioners"
            raise ConfigError(f"backends names {name!r}, and none of the {of} claims for it")
    return tuple(chosen)


def _chosen(host: Host, config: Config) -> list[Partitioner]:
    chosen = [host.partitioner(name) for name in dict.fromkeys(config.partitioners)]
    for partitioner in chosen:
        host.backend(partitioner.backend)
        if config.backends and partitioner.backend not in config.backends:
            raise ConfigError(
                f"partitioners names {partitioner.name!r}, which claims for"
                f" {partitioner.backend!r}: backends has only {', '.join(config.backends)}"
            )
    return chosen


def _claiming_for(host: Host, backend: str, rivals: Rivals) -> list[Partitioner]:
    for key, entries in rivals.items():
        if key[0] == "partitioner" and any(e.record.backend == backend for e in entries):
            raise PluginError(str(conflict(key, entries)))
    found = [one for one in host.partitioners.values() if one.backend == backend]

    def rank(one: Partitioner) -> tuple[bool, str]:
        return host.source("partitioner", one.name).distribution == BUILT_IN, one.name

    return sorted(found, key=rank)
