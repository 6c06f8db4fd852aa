"""One name, one record: conflicts, the config's choice between rivals, and look-ups."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from cede.errors import ConfigError, PluginError
from cede.host.records import Conflict, same_distribution
from cede.nearest import suggestion
from cede.planning import Source

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from cede.host.load import Plugin
    from cede.host.records import Failure


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """A record with the plugin it came from."""

    record: Any
    source: Source


Names = dict[tuple[str, str], Entry]
"""Entries by (kind, name)."""

Rivals = dict[tuple[str, str], tuple[Entry, ...]]
"""Entries of a name that stands for none of them, by (kind, name)."""


def gather(plugins: Sequence[Plugin], prefer: Mapping[str, str]) -> tuple[Names, Rivals]:
    """Give each name to the one plugin that brings it, or that the config prefers.

    Args:
        plugins: in any order; the outcome does not depend on it.
        prefer: distribution by name.
    """
    found: dict[tuple[str, str], list[Entry]] = {}
    for plugin in plugins:
        for kind, name, record in plugin.records:
            source = Source(
                name=name,
                distribution=plugin.loaded.distribution,
                version=plugin.loaded.version,
            )
            found.setdefault((kind, name), []).append(Entry(record=record, source=source))
    names: Names = {}
    rivals: Rivals = {}
    for key, entries in sorted(found.items()):
        wanted = prefer.get(key[1])
        if len(entries) > 1 and wanted is not None:
            chosen = [e for e in entries if same_distribution(e.source.distribution, wanted)]
            entries = chosen or entries
        if len(entries) == 1:
            names[key] = entries[0]
        else:
            by_source = sorted(entries, key=lambda e: (e.source.distribution, e.source.version))
            rivals[key] = tuple(by_source)
    return names, rivals


def conflict(key: tuple[str, str], entries: Sequence[Entry]) -> Conflict:
    """What to tell the user about rivals."""
    kind, name = key
    return Conflict(kind=kind, name=name, sources=tuple(entry.source for entry in entries))


def find(kind: str, name: str, names: Names, rivals: Rivals, failures: Sequence[Failure]) -> Entry:
    """The entry of that name.

    Raises:
        PluginError: rivals bring it, or a plugin that failed would have brought it.
        ConfigError: nobody brings it.
    """
    entry = names.get((kind, name))
    if entry is not None:
        return entry
    if (kind, name) in rivals:
        raise PluginError(str(conflict((kind, name), rivals[kind, name])))
    owed = [failure for failure in failures if _would_bring(failure, name)]
    if owed:
        told = "\n".join(filter(None, (part for f in owed for part in (str(f), f.trace))))
        raise PluginError(f"there is no {kind} {name!r}, because {told}")
    known = sorted(one for of, one in {*names, *rivals} if of == kind)
    guess = suggestion(name, known)
    lines = [f"there is no {kind} {name!r}: {guess}"]
    if guess.endswith("?"):
        lines.append(f"known {kind}s: {', '.join(known)}")
    lines += [f"{failure}; it may be what brings {name!r}" for failure in failures]
    raise ConfigError("\n".join(lines))


def _would_bring(failure: Failure, name: str) -> bool:
    # an import that failed never said its names: its own name and its distribution's tell
    return name in failure.names or name in re.split(r"[-_.]", failure.distribution)
