"""What the config says about plugins: which are left out, and who is asked before whom."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Protocol, TypeVar

from cede.errors import ConfigError, PluginError
from cede.host.names import conflict
from cede.host.records import BUILT_IN, normal
from cede.nearest import suggestion

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from cede.config import Config
    from cede.host.host import Host
    from cede.host.load import Plugin
    from cede.host.names import Rivals
    from cede.types import Partitioner


class _Distributed(Protocol):
    @property
    def distribution(self) -> str:
        """Name of the distribution."""


D = TypeVar("D", bound=_Distributed)
T = TypeVar("T")


def check_named(
    wanted: Config, candidates: Sequence[_Distributed], failures: Sequence[_Distributed]
) -> None:
    """Check the distributions that `plugins.disable` and `plugins.prefer` name.

    Raises:
        ConfigError: no plugin of that distribution is there.
    """
    known = {given.distribution for given in (*candidates, *failures)}
    normals = {normal(name) for name in known}
    keyed = [("plugins.disable", name) for name in wanted.plugins.disable]
    keyed += [(f"plugins.prefer.{key}", name) for key, name in wanted.plugins.prefer.items()]
    lines = [
        f"{wanted.origin(key)}: {key}: {name!r} is no distribution that brings plugins:"
        f" {suggestion(name, known)}"
        for key, name in keyed
        if normal(name) not in normals
    ]
    if lines:
        raise ConfigError("\n".join(lines))


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
        raise _wrong(
            config, "backends", f"it is empty; known: {', '.join(host.backends) or 'none'}"
        )
    backends = list(dict.fromkeys(config.backends))
    for name in backends:
        _at(config, "backends", partial(host.backend, name))
    if config.partitioners:
        chosen = _chosen(host, config)
    else:
        chosen = [one for name in backends for one in _claiming_for(host, name, rivals)]
    asked = {partitioner.backend for partitioner in chosen}
    for name in backends:
        if name not in asked:
            of = "those under partitioners" if config.partitioners else "the installed partitioners"
            raise _wrong(config, "backends", f"none of {of} claims for {name!r}")
    for name in dict.fromkeys(one.backend for one in chosen):
        if (why := host.availability(name).claim) is not None:
            key = "backends" if name in backends else "partitioners"
            raise PluginError(f"{config.origin(key)}: {key}: {name!r} can't be used here: {why}")
    return tuple(chosen)


def _chosen(host: Host, config: Config) -> list[Partitioner]:
    chosen = []
    for name in dict.fromkeys(config.partitioners):
        partitioner = _at(config, "partitioners", partial(host.partitioner, name))
        _at(config, "partitioners", partial(host.backend, partitioner.backend))
        if config.backends and partitioner.backend not in config.backends:
            raise _wrong(
                config,
                "partitioners",
                f"{name!r} claims for {partitioner.backend!r},"
                f" and backends has only {', '.join(config.backends)}",
            )
        chosen.append(partitioner)
    return chosen


def _claiming_for(host: Host, backend: str, rivals: Rivals) -> list[Partitioner]:
    for key, entries in rivals.items():
        if key[0] == "partitioner" and any(e.record.backend == backend for e in entries):
            raise PluginError(str(conflict(key, entries)))
    found = [one for one in host.partitioners.values() if one.backend == backend]

    def rank(one: Partitioner) -> tuple[bool, str]:
        return host.source("partitioner", one.name).distribution == BUILT_IN, one.name

    return sorted(found, key=rank)


def _at(config: Config, key: str, look_up: Callable[[], T]) -> T:
    try:
        return look_up()
    except ConfigError as error:
        raise _wrong(config, key, str(error)) from None


def _wrong(config: Config, key: str, message: str) -> ConfigError:
    return ConfigError(f"{config.origin(key)}: {key}: {message}")
