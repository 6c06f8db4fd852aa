"""What is installed is what stands in the tree, however it is installed."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
LINKS = ("partitioners", "backends", "quant", "configs")
DATA = (".py", ".yaml", ".typed", ".tmpl", ".json", ".html", ".css", ".js", "LICENSE")


def call(*command: object, cwd: Path) -> subprocess.CompletedProcess[str]:
    words = [sys.executable, *map(str, command)]
    clean = {key: value for key, value in os.environ.items() if key != "PYTHONPATH"}
    return subprocess.run(words, cwd=cwd, env=clean, capture_output=True, text=True, check=False)


def must(*command: object, cwd: Path) -> str:
    done = call(*command, cwd=cwd)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def copy_tree(to: Path) -> Path:
    """The tracked files, links as links: building leaves files beside the sources."""
    listed = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, check=True)
    for name in filter(None, listed.stdout.decode().split("\0")):
        source, target = ROOT / name, to / name
        if source.is_symlink() or source.is_file():  # else it is deleted and not committed yet
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(source, target, follow_symlinks=False)
    return to


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    return copy_tree(tmp_path / "tree")


def in_tree(tree: Path) -> set[str]:
    """Modules and data of the package, as paths below `src`, through the links."""
    found = set()
    for folder, _, files in os.walk(tree / "src" / "cede", followlinks=True):
        below = Path(folder).relative_to(tree / "src")
        found |= {(below / name).as_posix() for name in files if name.endswith(DATA)}
    return found


def in_wheel(folder: Path) -> set[str]:
    [wheel] = folder.glob("*.whl")
    with zipfile.ZipFile(wheel) as opened:
        return {name for name in opened.namelist() if ".dist-info/" not in name}


def test_the_wheel_and_the_wheel_from_the_sdist_hold_the_tree(tree: Path, tmp_path: Path):
    direct, through = tmp_path / "direct", tmp_path / "through"
    expected = in_tree(tree)
    # the sdist first: a build folder that another build left must not help it
    must("-m", "build", "--no-isolation", "--outdir", through, tree, cwd=tmp_path)
    shutil.rmtree(tree / "build", ignore_errors=True)
    wheel = ("-m", "pip", "wheel", "--quiet", "--no-deps", "--no-build-isolation", "--no-index")
    must(*wheel, "--wheel-dir", direct, tree, cwd=tmp_path)
    for link in LINKS[:3]:
        assert f"cede/{link}/__init__.py" in expected
    assert in_wheel(direct) == expected
    assert in_wheel(through) == expected
    [sdist] = through.glob("*.tar.gz")
    with tarfile.open(sdist) as opened:
        inside = {name.partition("/")[2] for name in opened.getnames()}
    assert {"pyproject.toml", "setup.py", "README.md", "LICENSE"} <= inside


def test_an_editable_install_imports_from_the_tree(tree: Path, tmp_path: Path):
    site = tmp_path / "site"
    install = ("-m", "pip", "install", "--quiet", "--no-deps", "--no-build-isolation")
    must(*install, "--no-index", "--target", site, "--editable", tree, cwd=tmp_path)
    new = tree / "backends" / "added_later"
    new.mkdir()
    (new / "__init__.py").write_text("")
    names = (
        "cede",
        "cede.backends",
        "cede.partitioners",
        "cede.quant",
        "cede.backends.added_later",
    )
    script = f"""
import importlib, site
site.addsitedir({str(site)!r})
for name in {names}:
    print(importlib.import_module(name).__file__)
"""
    # -I -S: neither the surrounding folder nor another cede in this environment can help
    files = must("-I", "-S", "-c", script, cwd=tmp_path).split()
    assert files == [str(tree / "src" / f"{n.replace('.', '/')}/__init__.py") for n in names]


@pytest.mark.parametrize("link", LINKS)
@pytest.mark.parametrize("instead", ["nothing", "text"])
def test_building_without_a_link_is_refused(tree: Path, link: str, instead: str):
    place = tree / "src" / "cede" / link
    place.unlink()
    if instead == "text":  # what a checkout without links, or a zip, puts there
        place.write_text(f"../../{link}")
    done = call("setup.py", "--version", cwd=tree)
    assert done.returncode != 0
    assert f"src/cede/{link} is no folder" in done.stderr
    assert "core.symlinks=true" in done.stderr


def test_building_with_all_links_is_not_refused(tree: Path):
    assert must("setup.py", "--version", cwd=tree).strip()


@pytest.mark.parametrize("name", LINKS[:3])
def test_the_root_folders_are_no_packages_of_their_own(name: str):
    done = call("-c", f"import {name}", cwd=ROOT)
    assert done.returncode != 0
    assert f"ImportError: import cede.{name}" in done.stderr
