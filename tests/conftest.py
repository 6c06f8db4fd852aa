"""Fixtures that several folders use."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from hypothesis import HealthCheck, settings

if TYPE_CHECKING:
    from collections.abc import Iterator

TESTS = Path(__file__).parent

# the first draw of a process imports what it draws from
settings.register_profile("cede", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("cede")


@pytest.fixture(autouse=True, scope="session")
def delegates_of_the_session(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Keep the cache of delegates away from the user's."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("CEDE_CACHE", str(tmp_path_factory.mktemp("delegates")))
        yield


@pytest.fixture(autouse=True)
def own_cache_of_who_patches(request: pytest.FixtureRequest) -> None:
    """Give a test that replaces something a cache of its own."""
    if "monkeypatch" in request.fixturenames:
        folder = request.getfixturevalue("tmp_path_factory").mktemp("cache")
        request.getfixturevalue("monkeypatch").setenv("CEDE_CACHE", str(folder))


@pytest.fixture(scope="session")
def demo_plugin(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder where pip has installed the distribution of `demo_plugin/`; put it on the path."""
    root = tmp_path_factory.mktemp("demo_plugin")
    source, site = root / "source", root / "site"
    shutil.copytree(TESTS / "demo_plugin", source)  # building leaves files beside the sources
    command = [sys.executable, "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
    command += ["--no-deps", "--no-build-isolation", "--no-index", "--target", str(site)]
    done = subprocess.run([*command, str(source)], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return site
