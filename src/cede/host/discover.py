"""Finding plugins without importing any: built-ins, entry points, local files."""

from __future__ import annotations

import hashlib
import pkgutil
import sys
from dataclasses import dataclass
from functools import partial
from importlib import import_module
from importlib.metadata import (
    Distribution,
    EntryPoint,
    PackageNotFoundError,
    distribution,
    distributions,
)
from importlib.metadata import version as version_of
from importlib.util import find_spec, module_from_spec, spec_from_file_location
from pathlib import Path
from typing import TYPE_CHECKING, Any

from cede.errors import ConfigError, PluginError
from cede.host.records import BUILT_IN, Failure, normal

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

GROUP = "cede"
"""The entry-point group that plugins register in."""

FOLDERS = ("cede.backends", "cede.partitioners", "cede.quant")
"""The packages whose modules named `plugin` are the built-in plugins."""


LOCAL = "cede_local_"
"""How the names of the modules begin that `plugins.files` become."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Candidate:
    """A plugin that was found and not imported yet.

    Attributes:
        name: as in `Loaded`.
        distribution: that brings it.
        version: of the distribution.
        module: what `load` imports.
        load: imports the plugin and gives it back.
        named: whether the config names it, so that its failure is fatal.
    """

    name: str
    distribution: str
    version: str
    module: str
    load: Callable[[], Any]
    named: bool = False


def built_ins() -> list[Candidate]:
    """The plugins of cede itself, by name.

    Raises:
        PluginError: one of the packages that hold them is missing from the installation.
    """
    try:
        version = version_of(BUILT_IN)
    except PackageNotFoundError:  # imported from a source tree
        version = "unknown"
    return [
        Candidate(
            name=module.removeprefix("cede.").removesuffix(".plugin"),
            distribution=BUILT_IN,
            version=version,
            module=module,
            load=partial(import_module, module),
        )
        for module in sorted(name for folder in FOLDERS for name in _plugin_modules(folder))
    ]


def _plugin_modules(folder: str) -> Iterator[str]:
    spec = find_spec(folder)
    if spec is None or not spec.submodule_search_locations:
        raise PluginError(f"{folder} is missing: cede is not installed whole, install it again")
    waiting = [(folder, list(spec.submodule_search_locations))]
    while waiting:
        package, paths = waiting.pop()
        for found in pkgutil.iter_modules(paths):
            if found.ispkg:
                inner = [str(Path(path) / found.name) for path in paths]
                waiting.append((f"{package}.{found.name}", inner))
            elif found.name == "plugin":
                yield f"{package}.plugin"


def installed() -> tuple[list[Candidate], list[Failure]]:
    """Entry points of the group `cede`, by distribution and name, and those that can't be read.

    Of two distributions of one name the first on `sys.path` counts, as it does for imports.
    """
    candidates: list[Candidate] = []
    failures: list[Failure] = []
    seen: set[str] = set()
    for found in distributions():
        name = ""
        try:
            # most distributions are done here: no entry points of this group
            if f"[{GROUP}]" not in (found.read_text("entry_points.txt") or ""):
                continue
            name = found.metadata["Name"]
            if normal(name) in seen:
                continue
            seen.add(normal(name))
            candidates += _entry_points(distribution(name), name)
        except Exception as error:  # whatever malformed metadata leads to
            failures.append(_unreadable(name or str(found.locate_file("")), error))
    return sorted(candidates, key=lambda given: (normal(given.distribution), given.name)), failures


def _entry_points(found: Distribution, name: str) -> list[Candidate]:
    points: dict[str, EntryPoint] = {}
    for point in found.entry_points:
        if point.group == GROUP:
            points.setdefault(point.name, point)
    return [
        Candidate(
            name=point.name,
            distribution=name,
            version=found.version or "unknown",
            module=point.module,
            load=point.load,
        )
        for point in points.values()
    ]


def _unreadable(name: str, error: Exception) -> Failure:
    return Failure(
        plugin=name,
        distribution=name,
        version="unknown",
        stage="find",
        reason=f"its installed metadata can't be read: {type(error).__name__}: {error}",
    )


def local(files: Sequence[str], base: Path | None) -> list[Candidate]:
    """The `.py` files that the config names, in its order, each once.

    Raises:
        ConfigError: a file is missing.
    """
    found: dict[Path, Candidate] = {}
    base = (base or Path.cwd()).resolve()
    for text in files:
        path = (base / Path(text).expanduser()).resolve()
        if not path.is_file():
            raise ConfigError(f"plugins.files names {text!r}: there is no file {path}")
        # the digest keeps apart files of one name, and off any installed module's name
        digest = hashlib.sha256(str(path).encode()).hexdigest()[:8]
        module = f"{LOCAL}{path.stem}_{digest}"
        shown = str(path.relative_to(base) if path.is_relative_to(base) else path)
        found.setdefault(
            path,
            Candidate(
                name=shown,
                distribution=shown,
                version="local",
                module=module,
                load=partial(_run_file, path, module),
                named=True,
            ),
        )
    return list(found.values())


def _run_file(path: Path, name: str) -> Any:
    spec = spec_from_file_location(name, path)
    if spec is None or spec.loader is None:
        raise ImportError(f"{path} is no Python file: its name should end in .py")
    module = module_from_spec(spec)
    sys.modules[name] = module  # dataclasses and pickle look their module up
    spec.loader.exec_module(module)
    return module
