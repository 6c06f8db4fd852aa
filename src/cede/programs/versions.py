"""What is installed, and the sources that may change without a version."""

from __future__ import annotations

import hashlib
import json
import os
import platform
import sys
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import unquote, urlparse

from cede.host.discover import LOCAL

if TYPE_CHECKING:
    from collections.abc import Iterator

_OWN = Path(__file__).parents[1]
_TEXTS = (".py", ".yaml", ".yml", ".json", ".toml")
_CODE = (*_TEXTS, ".so", ".pyd", ".dylib", ".dll")
_ASIDE = ("__pycache__", "build", "docs", "node_modules", "test", "tests")


@cache
def installed() -> str:
    """Every installed distribution with its version, by the names of their folders; the machine.

    With the files of those that are installed from a folder that may change (PEP 660).
    """
    found = set()
    for folder in dict.fromkeys(sys.path):
        try:
            names = os.listdir(folder or ".")
        except OSError:
            continue
        for name in names:
            # cede's own files are told by `own_sources`, wherever they were imported from
            if name.endswith((".dist-info", ".egg-info")) and not name.startswith("cede-"):
                found.add(name + _editable(Path(folder or ".", name)))
    return " ".join((*sorted(found), sys.version, platform.machine()))


@cache
def own_sources() -> str:
    """A hash of cede's own files."""
    return sources(_OWN)


def sources(folder: Path) -> str:
    """A hash of the sources in a folder: their texts, and size and time of compiled ones."""
    whole = hashlib.sha256()
    for path in sorted(_files(folder)):
        is_text = path.suffix in _TEXTS
        content = hashlib.sha256(path.read_bytes()).hexdigest() if is_text else _state(path)
        whole.update(f"{path.relative_to(folder)} {content}\n".encode())
    return whole.hexdigest()


def module_sources(name: str) -> str:
    """A hash of the sources around an imported module.

    Those of its top package; of a module that is in none, its file; of a plugin that is a file of
    the user's, the Python files and packages beside it, too.
    """
    top = sys.modules.get(name.partition(".")[0])
    file = getattr(top, "__file__", None)
    if top is None or name.partition(".")[0] == _OWN.name:
        return ""
    if folders := getattr(top, "__path__", ()):
        return " ".join(sources(Path(folder)) for folder in folders)
    if file is None:
        return ""
    beside = _beside(Path(file)) if name.startswith(LOCAL) else [Path(file)]
    return hashlib.sha256(b"".join(path.read_bytes() for path in sorted(beside))).hexdigest()


def _beside(file: Path) -> Iterator[Path]:
    yield from file.parent.glob("*.py")
    for package in file.parent.glob("*/__init__.py"):
        yield from (path for path in _files(package.parent) if path.suffix == ".py")


def _files(folder: Path, aside: tuple[str, ...] = ("__pycache__",)) -> Iterator[Path]:
    # cede's folders of plugins are links; elsewhere links may lead in circles
    own = folder == _OWN
    for place, folders, names in os.walk(folder, followlinks=own):
        folders[:] = [each for each in folders if each not in aside and not each.startswith(".")]
        yield from (Path(place, name) for name in names if name.endswith(_CODE))


def _state(path: Path) -> str:
    try:
        found = path.stat()
    except OSError:  # a link that leads nowhere
        return "none"
    return f"{found.st_size} {found.st_mtime_ns}"


def _editable(info: Path) -> str:
    """Sizes and times of the files of a distribution that runs from its own folder."""
    try:
        told = json.loads((info / "direct_url.json").read_bytes())
        editable = told["dir_info"].get("editable")
        folder = Path(unquote(urlparse(told["url"]).path))
    except (OSError, ValueError, KeyError, AttributeError, TypeError):
        return ""
    if not editable:
        return ""
    whole = hashlib.sha256()
    for path in sorted(_files(folder, _ASIDE)):
        whole.update(f"{path} {_state(path)}\n".encode())
    return f" {whole.hexdigest()}"
