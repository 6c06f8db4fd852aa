"""Fills the templates and writes the folder whole or not at all."""

from __future__ import annotations

import secrets
import shutil
from dataclasses import asdict
from importlib.resources import files
from pathlib import Path
from string import Template
from typing import TYPE_CHECKING

from cede.errors import ConfigError

if TYPE_CHECKING:
    from cede.kit.names import Names

FILES = {
    "pyproject.toml": "pyproject.tmpl",
    "README.md": "readme.tmpl",
    "src/$module/__init__.py": "init.tmpl",
    "src/$module/compiler.py": "compiler.tmpl",
    "src/$module/plugin.py": "plugin.tmpl",
    "src/$module/py.typed": "",
    "src/$module/rules.py": "rules.tmpl",
    "src/$module/runner.py": "runner.tmpl",
    "tests/test_conformance.py": "test_conformance.tmpl",
    "tests/test_$module.py": "test_plugin.tmpl",
}
"""Where each template of this package goes; "" is an empty file."""


def contents(names: Names) -> dict[str, str]:
    """The text of every file, by its path below the distribution's folder."""
    given = asdict(names)
    folder = files("cede.kit")
    found = {}
    for path, template in FILES.items():
        text = (folder / template).read_text(encoding="utf-8") if template else ""
        found[Template(path).substitute(given)] = Template(text).substitute(given)
    return found


def write_plugin(names: Names, folder: Path) -> tuple[Path, ...]:
    """Write the distribution.

    Args:
        names: from `names_for`.
        folder: new or empty; the folder around it is there.

    Returns:
        What was written, relative to the folder.

    Raises:
        ConfigError: the folder has something in it, or can't be written; nothing is left over.
    """
    folder = Path(folder)
    try:
        _insist_empty(folder)
        target = folder.resolve()
        # beside it, to be renamed: on the same file system
        beside = target.with_name(f".cede-{secrets.token_hex(8)}")
        try:
            made = [_write(beside / path, text, beside) for path, text in contents(names).items()]
            if target.is_dir():
                target.rmdir()
            beside.rename(target)
        except BaseException:
            shutil.rmtree(beside, ignore_errors=True)
            raise
    except OSError as error:
        raise ConfigError(f"{folder}: can't be written: {error.strerror or error}") from None
    return tuple(made)


def _write(path: Path, text: str, folder: Path) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8", newline="\n")
    return path.relative_to(folder)


def _insist_empty(folder: Path) -> None:
    if not folder.resolve().parent.is_dir():
        raise ConfigError(f"{folder}: the folder {folder.resolve().parent} does not exist")
    if folder.is_dir():
        if found := sorted(path.name for path in folder.iterdir()):
            raise ConfigError(
                f"{folder}: is not empty (it has {found[0]}); give a folder that isn't there yet"
            )
    elif folder.exists() or folder.is_symlink():
        raise ConfigError(f"{folder}: is no folder; give one that isn't there yet")
