"""Small distributions and plugin files, made on the spot."""

from __future__ import annotations

import importlib
import sys
from textwrap import dedent
from typing import TYPE_CHECKING

import pytest

from cede.config import Config, PluginsConfig
from cede.host import Host

if TYPE_CHECKING:
    from pathlib import Path


class Site:
    """A folder on `sys.path`, and what a test installs there."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def plugin(self, distribution: str, source: str, *, point: str = "", version: str = "1.0"):
        """Write a distribution with one plugin: a module and its metadata."""
        module = distribution.replace("-", "_")
        self.file(f"{module}.py", source)
        info = self.folder / f"{module}-{version}.dist-info"
        info.mkdir()
        metadata = f"Metadata-Version: 2.1\nName: {distribution}\nVersion: {version}\n"
        (info / "METADATA").write_text(metadata)
        (info / "entry_points.txt").write_text(f"[cede]\n{point or module} = {module}\n")
        importlib.invalidate_caches()

    def backend(self, distribution: str, name: str, **where: str):
        """Write a distribution with one backend."""
        self.plugin(distribution, backend_source(name), **where)

    def partitioner(self, distribution: str, name: str, backend: str, **where: str):
        """Write a distribution with one partitioner."""
        source = f"""
            class Partitioner:
                name, backend = {name!r}, {backend!r}

                def keeps(self, program):
                    return cede.Keep()

                def claim(self, program):
                    return []

            @cede.hookimpl
            def cede_partitioners():
                yield Partitioner()
            """
        self.plugin(distribution, "import cede\n" + dedent(source), **where)

    def file(self, name: str, source: str) -> Path:
        """Write a Python file."""
        path = self.folder / name
        path.write_text(dedent(source))
        return path

    def load(self, *, patience: float = 120.0, **plugins: object) -> Host:
        """A host with `seconds: patience`, and the rest under `plugins`; the folder is the base."""
        config = Config(seconds=patience, plugins=PluginsConfig(**plugins))
        return Host.load(config, base=self.folder)


def backend_source(name: str) -> str:
    return dedent(f"""
        import cede

        @cede.hookimpl
        def cede_backends():
            yield cede.Backend(name={name!r}, delegate_id="Delegate")
        """)


@pytest.fixture
def site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """An empty `Site`; what was imported from it is forgotten afterwards."""
    folder = tmp_path / "site"
    folder.mkdir()
    monkeypatch.syspath_prepend(str(folder))
    before = set(sys.modules)
    yield Site(folder)
    for name in set(sys.modules) - before:
        if str(folder) in str(getattr(sys.modules[name], "__file__", "")):
            del sys.modules[name]
