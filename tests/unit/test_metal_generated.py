"""MLX's generated files: made into a cache of ours, by several processes at once, or refused."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from cede.backends.coreml.here import executorch_folder
from cede.backends.metal.generated import cache_folder, ensure, lacking
from cede.errors import PluginError

SOURCE = Path(__file__).parents[2] / "src"
ROOT = executorch_folder()
assert ROOT is not None
INSTALLED = ROOT / "backends" / "mlx" / "serialization"
pytestmark = pytest.mark.skipif(
    (INSTALLED / "mlx_graph_schema.py").exists(), reason="this executorch brings the files"
)
MAKE = (
    "import sys; sys.path.insert(0, {source!r})\n"
    "from cede.backends.coreml.here import executorch_folder\n"
    "from cede.backends.metal.generated import ensure, lacking\n"
    "print(lacking(), 'torch' in sys.modules, 'executorch' in sys.modules)\n"
    "print(ensure(executorch_folder()))"
)


def start(cache: Path) -> subprocess.Popen[str]:
    command = [sys.executable, "-c", MAKE.format(source=str(SOURCE))]
    environment = {**os.environ, "XDG_CACHE_HOME": str(cache)}
    pipe = subprocess.PIPE
    return subprocess.Popen(command, stdout=pipe, stderr=pipe, text=True, env=environment)


def test_processes_make_them_at_once_outside_the_installation(tmp_path: Path) -> None:
    before = sorted(path.name for path in INSTALLED.iterdir())
    running = [start(tmp_path) for _ in range(4)]
    said = [process.communicate() for process in running]
    for process, (out, err) in zip(running, said, strict=True):
        assert process.returncode == 0, err
        first, place = out.splitlines()
        assert first == "None False False"  # it is told beforehand, without an import
        assert Path(place).is_relative_to(tmp_path)
    [made] = (tmp_path / "cede" / "mlx").iterdir()  # and nothing half-made beside it
    assert made.name.startswith("1.")
    assert sorted(path.name for path in INSTALLED.iterdir()) == before


def test_what_is_there_is_used_and_what_is_broken_is_made_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    place = ensure(ROOT)
    mark = place / "mark"
    mark.touch()
    assert ensure(ROOT) == place == cache_folder(ROOT)
    assert mark.exists()
    (place / "serialization" / "mlx_graph_schema.py").unlink()
    assert ensure(ROOT) == place
    assert not mark.exists()
    assert (place / "serialization" / "mlx_graph_schema.py").is_file()
    assert [path.name for path in place.parent.iterdir()] == [place.name]


def test_a_cache_that_cannot_be_written_is_an_error_with_advice(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").touch()
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "file"))
    with pytest.raises(PluginError, match=r"can't be kept under .*set XDG_CACHE_HOME"):
        ensure(ROOT)


def copied(to: Path) -> Path:
    """An executorch folder with nothing but what the files are made from."""
    root = to / "executorch"
    shutil.copytree(
        INSTALLED, root / "backends" / "mlx" / "serialization", ignore=lambda *_: ["__pycache__"]
    )
    (root / "data" / "bin").mkdir(parents=True)
    return root


def test_a_generator_that_fails_is_told_and_leaves_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    root = copied(tmp_path)
    flatc = root / "data" / "bin" / "flatc"
    flatc.write_text("#!/bin/sh\necho no such schema >&2\nexit 1\n")
    flatc.chmod(0o755)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    with pytest.raises(PluginError, match=r"could not make MLX's files.*generate.py --flatc"):
        ensure(root)
    assert list((tmp_path / "cache" / "cede" / "mlx").iterdir()) == []


def test_a_build_without_the_generator_is_refused_with_what_to_do(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (copied(tmp_path) / "__init__.py").touch()
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.delitem(sys.modules, "executorch", raising=False)
    said = lacking()
    assert said is not None
    assert "flatc" in said
    assert "install the wheel" in said
