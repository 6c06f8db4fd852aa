"""What the host knows about plugins: those that loaded, those that failed, names that clash."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from cede.planning import Source

BUILT_IN = "cede"
"""The distribution of the built-in plugins."""


def same_distribution(one: str, other: str) -> bool:
    """Whether two spellings name one distribution (the normal form of PEP 503)."""
    return normal(one) == normal(other)


def normal(distribution: str) -> str:
    """A distribution's name in the normal form of PEP 503."""
    return re.sub(r"[-_.]+", "-", distribution).lower()


@dataclass(frozen=True, slots=True, kw_only=True)
class Loaded:
    """A plugin that is in use.

    Attributes:
        name: of the entry point; the module's path for a built-in, the file for a local plugin.
        distribution: that brought it; the file for a local plugin,
            relative to the base folder where it lies in there.
        version: of the distribution; "local" for a file, "unknown" where it has none.
        hooks: names of the hooks that it implements.
    """

    name: str
    distribution: str
    version: str
    hooks: tuple[str, ...] = ()

    def __str__(self) -> str:
        return f"plugin {self.name!r} ({self.distribution} {self.version})"


@dataclass(frozen=True, slots=True, kw_only=True)
class Failure:
    """A plugin that could not be loaded. Nothing of it is in use.

    Attributes:
        plugin: its name, as in `Loaded`.
        distribution: that brought it.
        version: of the distribution.
        stage: "find", "import", "register" (its hooks don't fit) or the name of the hook that
            failed.
        reason: one line.
        trace: the traceback from the plugin's own code on, "" if there is none.
        names: the names that it is known to have brought, or would have by its own name.
    """

    plugin: str
    distribution: str
    version: str
    stage: str
    reason: str
    trace: str = ""
    names: tuple[str, ...] = ()

    def __str__(self) -> str:
        return (
            f"plugin {self.plugin!r} ({self.distribution} {self.version}) failed"
            f" ({self.stage}): {self.reason}"
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Conflict:
    """A name that several plugins bring. None of them gets it.

    Attributes:
        kind: "backend", "partitioner", "quantizer" or "encoding".
        name: the name.
        sources: who brings it.
    """

    kind: str
    name: str
    sources: tuple[Source, ...]

    def __str__(self) -> str:
        rivals = " and ".join(f"{given.distribution} {given.version}" for given in self.sources)
        text = f"{self.kind} {self.name!r} is brought by {rivals}"
        distributions = list(dict.fromkeys(given.distribution for given in self.sources))
        if len(distributions) < len(self.sources):
            return f"{text}: rename one of them"
        choice = f"plugins.prefer: {{{self.name}: {distributions[0]}}}"
        return f"{text}: choose one in the config ({choice})"
