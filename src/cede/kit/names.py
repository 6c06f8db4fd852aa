"""What a new plugin's parts are called, and whether these names are free here."""

from __future__ import annotations

import re
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec
from typing import TYPE_CHECKING

from cede.errors import ConfigError

if TYPE_CHECKING:
    from cede.host import Host

_PROJECT = re.compile(r"[A-Za-z0-9]([A-Za-z0-9._-]*[A-Za-z0-9])?")
"""The name of a distribution, as PEP 508 has it."""

_BACKEND = re.compile(r"[a-z][a-z0-9-]*")


@dataclass(frozen=True, slots=True, kw_only=True)
class Names:
    """The names of a new plugin.

    Attributes:
        name: of its backend and of its partitioner ("my-npu").
        distribution: what pip installs ("cede-my-npu").
        module: the import package ("cede_my_npu").
        delegate_id: what stands in the program, and the compiler's class ("CedeMyNpuBackend").
        title: the name as part of a class's ("MyNpu").
    """

    name: str
    distribution: str
    module: str
    delegate_id: str
    title: str


def names_for(text: str) -> Names:
    """All names from one, normalized as PEP 503 has it: "My_NPU" and "cede-my-npu" are "my-npu".

    Raises:
        ConfigError: no name of a distribution, or one that doesn't start with a letter.
    """
    if not _PROJECT.fullmatch(text):
        raise ConfigError(
            f"{text!r} can't name a distribution: give letters, digits, '-', '_' and '.', with a"
            " letter or digit at both ends"
        )
    name = re.sub(r"[-_.]+", "-", text).lower().removeprefix("cede-")
    if not _BACKEND.fullmatch(name):
        raise ConfigError(f"{text!r}: the name of a backend starts with a letter")
    title = "".join(part.capitalize() for part in name.split("-"))
    return Names(
        name=name,
        distribution=f"cede-{name}",
        module=f"cede_{name.replace('-', '_')}",
        delegate_id=f"Cede{title}Backend",
        title=title,
    )


def insist_free(names: Names, host: Host) -> None:
    """Make sure that nothing installed has these names.

    Raises:
        ConfigError: a backend, partitioner, delegate id, distribution or module is there already;
            names the distribution that has it.
    """
    for used, owner in _taken(names, host):
        raise ConfigError(f"{used} is taken by {owner}; choose another name")
    try:
        found = version(names.distribution)
    except PackageNotFoundError:
        found = ""
    if found:
        raise ConfigError(
            f"a distribution {names.distribution} {found} is installed; choose another name"
        )
    if (spec := find_spec(names.module)) is not None:
        raise ConfigError(
            f"a module {names.module} is there ({spec.origin or 'a folder'}); choose another name"
        )


def _taken(names: Names, host: Host) -> list[tuple[str, str]]:
    found = []
    for kind in ("backend", "partitioner"):
        if names.name in getattr(host, f"{kind}s"):
            source = host.source(kind, names.name)
            owner = f"{source.distribution} {source.version}"
            found.append((f"the {kind} {names.name!r}", owner))
    for conflict in host.conflicts:
        if conflict.name == names.name:
            owners = " and ".join(
                f"{each.distribution} {each.version}" for each in conflict.sources
            )
            found.append((f"the {conflict.kind} {names.name!r}", owners))
    for failure in host.failures:
        if names.name in failure.names:
            owner = f"{failure.distribution} {failure.version}, which fails to load"
            found.append((f"the name {names.name!r}", owner))
    for backend in host.backends.values():
        if backend.delegate_id == names.delegate_id:
            source = host.source("backend", backend.name)
            owner = f"the backend {backend.name!r} of {source.distribution} {source.version}"
            found.append((f"the delegate id {names.delegate_id}", owner))
    return found
