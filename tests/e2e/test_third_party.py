"""A distribution of somebody else: in the list of plugins, in the table, and in the program."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch

ROOT = Path(__file__).parents[2]
MODEL = """
import torch

class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        torch.manual_seed(0)
        self.line = torch.nn.Linear(8, 8)

    def forward(self, x):
        return torch.cumsum(torch.relu(self.line(x)), -1)

def make():
    return Net(), (torch.linspace(-1, 1, 16).reshape(2, 8),)
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("third_party")
    (path / "net.py").write_text(MODEL)
    return path


def cede(folder: Path, site: Path | None, *words: str) -> subprocess.CompletedProcess[str]:
    paths = [str(ROOT / "src"), *([str(site)] if site is not None else [])]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(paths)}
    command = [sys.executable, "-m", "cede", *words]
    return subprocess.run(
        command, cwd=folder, env=environment, capture_output=True, text=True, check=False
    )


def test_it_is_at_most_thirty_lines() -> None:
    assert len((ROOT / "tests/demo_plugin/cede_demo.py").read_text().splitlines()) <= 30


def test_it_shows_among_the_plugins(folder: Path, demo_plugin: Path) -> None:
    done = cede(folder, demo_plugin, "plugins")
    assert done.returncode == 0, done.stderr
    assert "cede-demo" in done.stdout
    assert "cede-demo" not in cede(folder, None, "plugins").stdout


def test_it_shows_in_the_table_and_in_the_program(folder: Path, demo_plugin: Path) -> None:
    done = cede(
        folder, demo_plugin, "export", "net.py:make", "-b", "xnnpack", "-b", "reference",
        "partitioners=[xnnpack,demo]", "-o", "net.pte", "--plan-out", "plan.json",
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    row = next(line for line in done.stdout.splitlines() if "aten_cumsum_default" in line)
    assert "reference" in row
    plan = json.loads((folder / "plan.json").read_text())
    assert {"name": "demo", "distribution": "cede-demo", "version": "1.2.3"} in plan["partitioners"]
    taken = {
        op: part["partitioner"]
        for given in plan["delegations"]
        for part in given["parts"]
        for op in part["ops"]
    }
    assert taken["aten_cumsum_default"] == "demo"
    assert taken["aten_linear_default"] == "xnnpack"

    from cede.backends.reference.plugin import cede_backends
    from cede.running import run
    from cede.running.pte import delegates_of

    program = (folder / "net.pte").read_bytes()
    ids = [id for _, id, _ in delegates_of(program)]
    assert ids == ["XnnpackBackend", "CedeReferenceBackend"]
    space: dict[str, object] = {}
    exec(MODEL, space)
    net, args = space["make"]()  # type: ignore[operator]
    backends = {backend.name: backend for backend in cede_backends()}
    got = run(program, args, backends=backends).outputs[0]
    with torch.no_grad():
        torch.testing.assert_close(got, net.eval()(*args))
