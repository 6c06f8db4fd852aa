"""Every problem of a config in one error: its keys and values, and the names that plugins bring."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from cede.config import Config, check_options
from cede.errors import ConfigError, PluginError
from cede.host.host import Host

if TYPE_CHECKING:
    from collections.abc import Callable


def with_names(error: ConfigError) -> ConfigError:
    """What `load_config` raised, with the unknown names that the rest of the config has."""
    if not isinstance(error.partial, Config):
        return error
    lines = [*str(error).splitlines(), *name_problems(error.partial)]
    return ConfigError("\n".join(dict.fromkeys(lines)))


def name_problems(config: Config) -> list[str]:
    """Unknown distributions, backends, options and partitioners, one line each."""
    lines: list[str] = []
    host = _told(lambda: Host.load(config), lines)
    if host is None:
        # Without what is wrong, so that the other names are looked at too.
        plugins = replace(config.plugins, disable=[], prefer={})
        host = _told(lambda: Host.load(replace(config, plugins=plugins)), lines)
    if host is None:
        return lines
    before = len(lines)
    _told(lambda: check_options(config, host.backends, host.backend), lines)
    known = [name for name in config.backends if name in host.backends]
    if config.partitioners or (known and len(lines) == before):
        own = replace(config, backends=known)
        _told(lambda: host.partitioners_for(own), lines)
    return list(dict.fromkeys(lines))


def _told(ask: Callable[[], Host | object], lines: list[str]) -> Host | None:
    try:
        found = ask()
    except (ConfigError, PluginError) as error:
        lines += [line for line in str(error).splitlines() if line not in lines]
        return None
    return found if isinstance(found, Host) else None
