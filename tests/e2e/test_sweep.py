"""`cede sweep` as it is run: killed and gone on with, with models that fail, on a Dask cluster."""

from __future__ import annotations

import json
import os
import signal
import sqlite3
import subprocess
import sys
import time
from contextlib import closing
from pathlib import Path

import pytest
from tests.dask_cluster import cluster

from cede.support.worker import Worker
from cede.sweep import Outcome, SweepConfig, read_sweep, tasks
from cede.sweep.job import attempt
from cede.sweep.settings import VariantConfig

ROOT = Path(__file__).parents[2]
EXAMPLE = ROOT / "examples/sweep/sweep.yaml"
MODELS = """\
import os, time, torch

def good():
    return torch.nn.Linear(2, 2), (torch.ones(1, 2),)

def dies():
    os.abort()

def hangs():
    time.sleep(600)

def raises():
    raise ValueError("no weights")
"""


def begin(*words: object) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-m", "cede", "sweep", *map(str, words)],
        env={**os.environ, "PYTHONPATH": str(ROOT / "src")},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def test_the_example_is_one() -> None:
    assert len(tasks(read_sweep(EXAMPLE))) == 4


def sweep(*words: object) -> tuple[int, str, str]:
    process = begin(*words)
    out, err = process.communicate(timeout=300)
    return process.returncode, out, err


@pytest.fixture
def models(tmp_path: Path) -> Path:
    (tmp_path / "models.py").write_text(MODELS)
    return tmp_path / "models.py"


def test_a_sweep_goes_on_where_it_was_killed_and_what_fails_is_a_row(
    models: Path, tmp_path: Path
) -> None:
    table = tmp_path / "t.sqlite"
    asked = [f"{models}:{name}" for name in ("good", "dies", "raises")]
    words = [*asked, "-c", "reference", "-o", table, "--level", "claim", "--jobs", 1]
    with begin(*words) as process:
        assert process.stderr is not None
        first = process.stderr.readline()
        process.kill()
    assert process.returncode == -signal.SIGKILL
    assert first.startswith(f"1/3 {asked[0]} with reference: ok"), first
    assert rows(table) == {asked[0]: "ok"}
    code, out, err = sweep(*words)
    assert code == 5
    assert err.startswith("1 of 3 rows are there\n1/2 ")
    assert f"error: {table}: 2 of 3 rows failed:" in err
    assert "SIGABRT" in out
    assert "ValueError: no weights" in " ".join(out.split())
    assert rows(table) == dict(zip(asked, ("ok", "crashed", "failed"), strict=True))


def rows(table: Path) -> dict[str, str]:
    with closing(sqlite3.connect(table)) as file:
        return dict(file.execute("SELECT model, outcome FROM runs").fetchall())


@pytest.mark.slow
def test_the_example(tmp_path: Path) -> None:
    code, out, err = sweep(EXAMPLE, "-o", tmp_path / "t.sqlite", "--calls", 3, "-f", "json")
    assert code == 0, err
    found = {(row["model"], row["config"]): row for row in json.loads(out)["rows"]}
    assert [row["outcome"] for row in found.values()] == ["ok"] * 4
    assert all(row["max_error"] < 1e-4 for row in found.values())
    assert all(row["seconds"] > 0 for row in found.values())
    assert found["nets.py:classifier", "xnnpack-fp32"]["delegated"] == 4
    assert found["nets.py:counter", "xnnpack-fp32"]["delegated"] == 1
    sizes = [
        found["nets.py:classifier", name]["program_bytes"] for name in ("int4", "xnnpack-fp32")
    ]
    assert sizes == sorted(sizes)


def test_one_that_hangs_is_a_row_too(models: Path) -> None:
    asked = SweepConfig(
        models=[f"{models}:hangs"], configs={"reference": VariantConfig()}, level="claim"
    )
    (task,) = tasks(asked)
    with Worker() as worker:
        row = attempt(worker, task, 0.1)
    assert (row.outcome, row.step) == (Outcome.TIMED_OUT, "claim")
    assert "longer than 0.1 s" in row.detail


def test_a_child_ends_when_its_parent_is_killed() -> None:
    code = (
        "import os, sys, time\n"
        "from cede.support.worker import Worker\n"
        "with Worker() as worker:\n"
        "    print(worker.ask(os.getpid, seconds=60), flush=True)\n"
        "    worker.ask(time.sleep, 600, seconds=600)\n"
    )
    with subprocess.Popen(
        [sys.executable, "-c", code],
        env={**os.environ, "PYTHONPATH": str(ROOT / "src")},
        stdout=subprocess.PIPE,
        text=True,
    ) as parent:
        assert parent.stdout is not None
        child = int(parent.stdout.readline())
        parent.kill()
    until = time.monotonic() + 60
    while _alive(child) and time.monotonic() < until:
        time.sleep(0.1)
    assert not _alive(child)


def _alive(process: int) -> bool:
    try:
        state = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0]
    except FileNotFoundError:
        return False
    return state != "Z"


def test_two_workers_of_a_dask_cluster(models: Path, tmp_path: Path) -> None:
    table = tmp_path / "t.sqlite"
    with cluster(tmp_path) as address:
        code, out, err = sweep(
            f"{models}:dies", f"{models}:good", "-c", "reference", "-o", table,
            "--level", "claim", "--engine", f"dask://{address}", "-f", "json",
        )  # fmt: skip
        log = (tmp_path / "dask.log").read_text()
    assert code == 5, err
    told = json.loads(out)["rows"]
    assert [row["outcome"] for row in told] == ["crashed", "ok"], log
    assert log.count("Registered to:") == 2
