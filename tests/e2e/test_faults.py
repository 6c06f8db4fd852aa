"""A fault from outside is one clear error with its exit code, and leaves nothing behind."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest
import torch
from click.testing import CliRunner
from torch import nn

from cede import api
from cede.cli import main
from cede.errors import LoweringError

if TYPE_CHECKING:
    from pathlib import Path

MODEL = """
import torch

def make():
    return torch.nn.Linear(128, 128), (torch.ones(1, 128),)
"""

# As on a full disk: no file of this process may be larger than 16 KiB, the weights are.
FULL = """
import resource, sys
from cede.cli import main
import torch, executorch.exir
resource.setrlimit(resource.RLIMIT_FSIZE, (1 << 14, 1 << 14))
main(sys.argv[1:])
"""


WRITE = """
import pathlib, resource, sys
from cede.errors import LoweringError
from cede.files import write_whole
resource.setrlimit(resource.RLIMIT_FSIZE, (1 << 14, 1 << 14))
try:
    write_whole(pathlib.Path(sys.argv[1]), bytes(1 << 15))
except LoweringError as error:
    print(error)
"""


def child(code: str, arguments: list[str], **more: str) -> subprocess.CompletedProcess[str]:
    path = os.pathsep.join(sys.path)
    return subprocess.run(
        [sys.executable, "-c", code, *arguments],
        env={**os.environ, "PYTHONPATH": path, "PYTHONDONTWRITEBYTECODE": "1", **more},
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )


@pytest.mark.skipif(sys.platform == "win32", reason="no limits there")
def test_a_disk_that_is_full_keeps_the_old_file(tmp_path: Path) -> None:
    source, out = tmp_path / "model.py", tmp_path / "model.pte"
    source.write_text(MODEL)
    out.write_bytes(b"before")
    spare = tmp_path / "spare"
    spare.mkdir()
    command = ["export", f"{source}:make", "-b", "reference", "-o", str(out), "-q"]
    done = child(FULL, command, TMPDIR=str(spare))
    assert done.returncode == 5, done.stderr
    assert "error: could not emit the program: File too large (a temporary file)" in done.stderr
    assert f"free space in {spare}" in done.stderr
    done = child(WRITE, [str(out)])
    assert done.stdout == f"{out}: can't be written: File too large\n"
    left = [path for path in spare.rglob("*") if not path.is_dir()]
    assert left == [], "torch makes a folder for its own cache; files are debris"
    shutil.rmtree(spare)
    assert "Traceback" not in done.stderr
    assert out.read_bytes() == b"before"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["model.pte", "model.py"]


WIDE = """
import torch

def make():
    layers = [torch.nn.Linear(2048, 2048) for _ in range(6)]
    return torch.nn.Sequential(*layers), (torch.ones(1, 2048),)
"""

# As on a machine that is full: so many MiB may come to those that the process has by then.
SCARCE = """
import pathlib, resource, sys
from cede.cli import main
import torch, executorch.exir, cede.lowering
pages = int(pathlib.Path("/proc/self/statm").read_text().split()[0])
room = pages * resource.getpagesize() + (int(sys.argv.pop(1)) << 20)
resource.setrlimit(resource.RLIMIT_AS, (room, resource.getrlimit(resource.RLIMIT_AS)[1]))
main(sys.argv[1:])
"""


@pytest.mark.skipif(sys.platform != "linux", reason="no such limit there")
@pytest.mark.parametrize(
    ("room", "backend", "where"),
    [
        (60, "xnnpack", "model.py:make"),
        (250, "reference", "reference"),
        pytest.param(120, "reference", "reference", marks=pytest.mark.slow),
        pytest.param(250, "xnnpack", "", marks=pytest.mark.slow),
    ],
)
def test_too_little_memory_is_told(tmp_path: Path, room: int, backend: str, where: str) -> None:
    source, out = tmp_path / "model.py", tmp_path / "model.pte"
    source.write_text(WIDE)
    out.write_bytes(b"before")
    (tmp_path / "spare").mkdir()
    command = [str(room), "export", f"{source}:make", "-b", backend, "-o", str(out), "-q"]
    # memory of libraries comes in larger pieces than it is asked for where threads are many
    more = {"TMPDIR": str(tmp_path / "spare"), "OMP_NUM_THREADS": "1", "MALLOC_ARENA_MAX": "1"}
    done = child(SCARCE, [*command, "lowering.cache=false"], **more)
    assert done.returncode == 5, done.stderr
    [error] = [line for line in done.stderr.splitlines() if line.startswith("error: ")]
    assert error.startswith(f"error: {tmp_path}/{where}" if ".py" in where else f"error: {where}")
    assert "not enough memory; close other programs, or lower a smaller model" in error
    assert "Traceback" not in done.stderr
    assert out.read_bytes() == b"before"
    assert sorted(each.name for each in tmp_path.iterdir()) == ["model.pte", "model.py", "spare"]
    assert [each for each in (tmp_path / "spare").rglob("*") if not each.is_dir()] == []


@pytest.mark.parametrize("spoil", ["cut", "noise", "empty"])
def test_a_corrupt_program_is_refused(tmp_path: Path, spoil: str) -> None:
    lowered = api.export(nn.Linear(4, 4).eval(), (torch.ones(1, 4),), config="reference")
    data = lowered.buffer
    bad = {"cut": data[:-40], "noise": data[:32] + b"\xff" * (len(data) - 32), "empty": b""}
    path = tmp_path / "bad.pte"
    path.write_bytes(bad[spoil])
    source = tmp_path / "model.py"
    source.write_text(MODEL.replace("128", "4"))
    for command in (["run", str(path)], ["verify", f"{source}:make", "--program", str(path)]):
        done = CliRunner().invoke(main, command)
        assert done.exit_code == 5, done.output
        assert done.stderr.startswith(f"error: {path}: ")


class Branches(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x * 2 if x.sum() > 0 else x


class Raises(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        raise KeyError("lost")


@pytest.mark.parametrize(("model", "says"), [(Branches(), "data-dependent"), (Raises(), "lost")])
def test_what_torch_can_not_export_is_one_error(model: nn.Module, says: str) -> None:
    with pytest.raises(LoweringError) as caught:
        api.export(model, (torch.ones(2),), config="reference")
    assert str(caught.value).startswith(f"{type(model).__name__}: torch.export can't export it: ")
    assert says in str(caught.value)
    assert caught.value.__cause__ is not None
