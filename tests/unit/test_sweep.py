"""What a sweep reads, what it does again, and its table; no model is loaded."""

from __future__ import annotations

import csv
import io
import json
import socket
import sqlite3
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest
from click.testing import CliRunner

from cede.cli import main
from cede.errors import ConfigError
from cede.sweep import Outcome, Results, Row, parquet, read_sweep, shown, tasks
from cede.sweep.engines import rows_from

if TYPE_CHECKING:
    from pathlib import Path

    from cede.sweep import Task

GOOD = Row(
    model="a.py:make", config="x", outcome=Outcome.OK, step="run", ops=10, delegated=9,
    delegates=2, flops=100, delegated_flops=99, program_bytes=1234, max_error=1e-6, took=2.5,
)  # fmt: skip
BAD = Row(model="b.py:make", config="x", outcome=Outcome.CRASHED, detail="SIGSEGV: oh | no")

SWEEP = """\
models: [net.py:make]
configs: {reference: , strict: {config: reference, overrides: [strict=true]}}
"""


@pytest.fixture
def file(tmp_path: Path) -> Path:
    (tmp_path / "net.py").write_text("def make(): ...\n")
    path = tmp_path / "sweep.yaml"
    path.write_text(SWEEP)
    return path


def keys(file: Path) -> dict[str, str]:
    return {task.name: task.key for task in tasks(read_sweep(file))}


def test_every_model_by_every_config(file: Path) -> None:
    file.with_name("other.py").write_text("")
    file.write_text(SWEEP.replace("net.py:make", "net.py:make, other.py:make"))
    found: tuple[Task, ...] = tasks(read_sweep(file))
    assert [(task.model, task.name) for task in found] == [
        ("net.py:make", "reference"), ("net.py:make", "strict"),
        ("other.py:make", "reference"), ("other.py:make", "strict"),
    ]  # fmt: skip
    assert found[0].spec == f"{file.parent / 'net.py'}:make"
    assert [task.config.strict for task in found[:2]] == [False, True]
    assert len({task.key for task in found}) == 4


def test_a_row_is_made_anew_where_what_it_is_about_changed(file: Path) -> None:
    old = keys(file)
    assert keys(file) == old
    file.write_text(SWEEP.replace("strict=true", "strict=false") + "seconds: 5\njobs: 3\n")
    new = keys(file)
    assert new["reference"] == old["reference"]
    assert new["strict"] != old["strict"]
    file.with_name("net.py").write_text("def make(): pass\n")
    assert keys(file)["reference"] != old["reference"]
    file.write_text(SWEEP + "level: lower\n")
    assert keys(file)["reference"] not in (old["reference"], new["reference"])


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("modles: []", "sweep.yaml: modles: unknown key; did you mean models?"),
        ("level: compile", "sweep.yaml: level: is 'compile'; "),
        ("seconds: 0", "sweep.yaml: seconds: is 0, must be above 0"),
        ("jobs: -1", "sweep.yaml: jobs: is -1, must not be below 0"),
        ("engine: ray://a:1", "engine: is 'ray://a:1'; give local or dask://HOST:PORT"),
        ("configs: {a: {confg: b}}", "sweep.yaml: configs.a.confg: unknown key; did you mean"),
        (f"{SWEEP}level: lower\ncalls: 3", "calls are measured at the level run"),
        ("models: [", "sweep.yaml (line 1, column 10): not YAML: "),
        ("models: [net.py:make]", "there is no config: give --config, or `configs`"),
        ("configs: {reference: }", "there is no model: give MODEL, or `models`"),
        ("{models: [no.py:make], configs: {reference: }}", "no.py: no such file"),
        (
            (
                "{models: [net.py:make], configs: {a: {config: xnnpak-fp32},"
                " b: {config: reference, overrides: [stirct=true]}}}"
            ),
            (
                "configs.a: xnnpak-fp32: neither a file nor a ready config; did you mean"
                " xnnpack-fp32?\nconfigs.b: override: stirct: unknown key; did you mean strict?"
            ),
        ),
    ],
)
def test_what_is_wrong_is_told_before_anything_runs(file: Path, text: str, message: str) -> None:
    file.write_text(text)
    table = file.with_name("t.sqlite")
    done = CliRunner().invoke(main, ["sweep", str(file), "-o", str(table)])
    assert done.exit_code == 2, done.output
    assert message in done.stderr
    assert not table.exists()


def test_options_and_arguments_go_before_the_file(
    file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from cede.cli.sweep import _asked

    monkeypatch.chdir(file.parent)
    given = {"level": "claim", "jobs": None, "seconds": 5.0}
    found = _asked((str(file), "pkg.mod:f", "strict=true"), ("xnnpack-fp32",), given)
    assert found.models == [f"{file.parent / 'net.py'}:make", "pkg.mod:f"]
    assert (found.level, found.seconds, found.jobs) == ("claim", 5.0, 0)
    assert list(found.configs) == ["reference", "strict", "xnnpack-fp32"]
    assert all("strict=true" in one.overrides for one in found.configs.values())
    with pytest.raises(ConfigError, match="engine: is 'x'"):
        _asked((str(file),), (), {"engine": "x"})


def test_what_an_engine_or_a_form_needs_is_told_before_anything_runs(
    file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("cede.sweep.engines.find_spec", lambda _: None)
    table = file.with_name("t.sqlite")
    done = CliRunner().invoke(
        main, ["sweep", str(file), "-o", str(table), "--engine", "dask://here:1"]
    )
    assert done.exit_code == 2
    assert done.stderr == "error: the engine dask:// needs `pip install 'cede[dask]'`\n"
    assert not table.exists()


def test_rows_stay_in_the_file(tmp_path: Path) -> None:
    path = tmp_path / "t.sqlite"
    with Results(path) as results:
        results.put(BAD, "old")
        results.put(GOOD, "k")
        results.put(replace(BAD, outcome=Outcome.OK, detail=""), "new")
    with Results(path) as results:
        assert results.rows() == {
            (GOOD.model, "x"): ("k", GOOD),
            (BAD.model, "x"): ("new", replace(BAD, outcome=Outcome.OK, detail="")),
        }
    with sqlite3.connect(path) as file:
        found = file.execute("SELECT model, delegated FROM runs WHERE outcome = 'ok'").fetchall()
    file.close()
    assert sorted(found) == [("a.py:make", 9), ("b.py:make", None)]


def test_another_file_is_not_touched(tmp_path: Path) -> None:
    path = tmp_path / "notes.txt"
    path.write_text("mine " * 100)
    with pytest.raises(ConfigError, match=r"notes\.txt: can't be used as the table of a sweep"):
        Results(path)
    assert path.read_text() == "mine " * 100
    other = tmp_path / "other.sqlite"
    with sqlite3.connect(other) as file:
        file.execute("CREATE TABLE runs (a)")
    file.close()
    with pytest.raises(ConfigError, match="another program's database"):
        Results(other)


def test_forms() -> None:
    text = shown([GOOD, BAD])
    assert "9 of 10 (90 %)" in text
    assert "a call" not in text, "a column that nobody has"
    assert "SIGSEGV" in text
    assert "\x1b[33mb.py:make\x1b[0m" in shown([GOOD, BAD], rich=True)
    assert r"oh \| no" in shown([BAD], "markdown")
    data = json.loads(shown([GOOD, BAD], "json"))["rows"]
    rows = list(csv.DictReader(io.StringIO(shown([GOOD, BAD], "csv"))))
    assert [row["outcome"] for row in data] == [row["outcome"] for row in rows] == ["ok", "crashed"]
    assert data[1]["ops"] is None
    assert rows[1]["ops"] == ""


def test_parquet(tmp_path: Path) -> None:
    files = pytest.importorskip("pyarrow.parquet")
    path = tmp_path / "t.parquet"
    path.write_bytes(parquet([GOOD, BAD]))
    read = files.read_table(path).to_pylist()
    assert read == json.loads(shown([GOOD, BAD], "json"))["rows"]


def test_a_scheduler_that_does_not_answer(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("cede.sweep.engines.CONNECTING", 0.2)
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        engine = f"dask://127.0.0.1:{free.getsockname()[1]}"
        with pytest.raises(ConfigError, match=rf"{engine}: no scheduler answers"):
            list(rows_from(engine, tasks(read_sweep(file)), 9))
