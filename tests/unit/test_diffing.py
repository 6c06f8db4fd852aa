"""`cede diff` and `cede gate` over files of plans and reports."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest
from click.testing import CliRunner, Result

from cede.cli import main
from cede.reporting import make_report
from cede.types import Code, Op, OpGraph, Reason, Ref, Refusal

from .report_graphs import GRAPH, plan, weight

if TYPE_CHECKING:
    from pathlib import Path

    from cede.planning import Plan

GONE = Reason(code=Code.SHAPE, detail="too wide")


def fallen() -> Plan:
    """As `plan`, but the last linear is left: one delegate fewer."""
    given = plan()
    refusal = Refusal(partitioner="fast", op="aten_linear_default_1", reason=GONE)
    return replace(
        given,
        delegations=tuple(one for one in given.delegations if one.id != "d1"),
        refusals=(refusal, *given.refusals),
    )


def longer() -> OpGraph:
    """The same program with one more linear before all others, so that every id shifts."""
    names = {"aten_linear_default": "aten_linear_default_1"}
    names["aten_linear_default_1"] = "aten_linear_default_2"
    first = Op(
        id="aten_linear_default", target="aten.linear.default", inputs=("x", "p_new_weight"),
        args=(("input", Ref("x")), ("weight", Ref("p_new_weight"))), module="new",
        outputs=GRAPH.ops[1].outputs, flops=10,
    )  # fmt: skip
    ops = [
        replace(
            op,
            id=names.get(op.id, op.id),
            inputs=tuple(names.get(used, used) for used in op.inputs),
            args=tuple(
                (name, Ref(names.get(value.id, value.id)) if isinstance(value, Ref) else value)
                for name, value in op.args
            ),
        )
        for op in GRAPH.ops
    ]
    return replace(
        GRAPH,
        inputs=(*GRAPH.inputs, weight("p_new_weight", 8)),
        ops=(first, *ops),
        outputs=tuple(names.get(id, id) for id in GRAPH.outputs),
    )


def renamed(given: Plan) -> Plan:
    """A plan for `longer`, in which nobody takes the new op."""
    text = given.to_json()
    text = text.replace("aten_linear_default_1", "aten_linear_default_2")
    text = text.replace('"aten_linear_default"', '"aten_linear_default_1"')
    return type(given).from_json(text)


@pytest.fixture
def files(tmp_path: Path) -> Path:
    for name, made in (("old", plan()), ("new", fallen())):
        (tmp_path / f"{name}.plan").write_text(made.to_json())
        (tmp_path / f"{name}.json").write_text(make_report(made, GRAPH).json())
    (tmp_path / "longer.json").write_text(make_report(renamed(plan()), longer()).json())
    return tmp_path


def cede_(*args: object) -> Result:
    return CliRunner().invoke(main, [str(arg) for arg in args])


def test_a_fallen_op_is_told_with_its_reason(files: Path) -> None:
    done = cede_("diff", files / "old.json", files / "new.json", "-f", "json")
    assert done.exit_code == 0, done.output
    data = json.loads(done.stdout)
    assert data["moved"] == [
        {
            "op": "aten_linear_default_1", "module": "out", "old": "quick", "new": "",
            "reason": data["moved"][0]["reason"],
        }
    ]  # fmt: skip
    assert "shape: too wide" in data["moved"][0]["reason"]
    assert (data["old"]["totals"]["delegates"], data["new"]["totals"]["delegates"]) == (3, 2)
    assert (data["old"]["backends"], data["new"]["backends"]) == (
        {"quick": 2, "lazy": 1},
        {"quick": 1, "lazy": 1},
    )


def test_plans_are_compared_too(files: Path) -> None:
    done = cede_("diff", files / "old.plan", files / "new.plan")
    assert done.stdout.startswith("old.plan -> new.plan: 1 op moved, 1 fell back\n")
    assert "shape: too wide" in done.stdout


def test_an_op_that_is_added_moves_no_other(files: Path) -> None:
    done = cede_("diff", files / "old.json", files / "longer.json", "-f", "json")
    data = json.loads(done.stdout)
    assert (data["moved"], data["added"], data["removed"]) == ([], ["aten_linear_default"], [])
    assert not data["same"]


@pytest.mark.parametrize("form", ["text", "markdown"])
def test_nothing_changed(files: Path, form: str) -> None:
    done = cede_("diff", files / "old.json", files / "old.json", "-f", form, "--exit-code")
    assert (done.exit_code, done.stdout.splitlines()[0]) == (0, "old.json -> old.json: the same")


def test_exit_code_4_where_that_is_asked_for(files: Path) -> None:
    done = cede_("diff", files / "old.json", files / "new.json", "--exit-code")
    assert done.exit_code == 4
    assert "1 op moved" in done.stderr


DEMANDS = {
    "coverage": (["--min-coverage", "0.9"], "60 % of ops in delegates, 90 % are demanded"),
    "flops": (["--min-flops", "0.5"], "25 % of FLOPs in delegates, 50 % are demanded"),
    "delegates": (["--max-delegates", "1"], "2 delegates, at most 1 are allowed"),
}


@pytest.mark.parametrize("demand", DEMANDS)
def test_a_demand_that_is_not_met_is_exit_code_4(files: Path, demand: str) -> None:
    given, told = DEMANDS[demand]
    done = cede_("gate", files / "new.json", *given)
    assert done.exit_code == 4
    assert told in done.stderr
    assert done.stdout.startswith("# new.json: failed\n")
    assert f"- {told}" in done.stdout


def test_demands_that_are_met(files: Path, tmp_path: Path) -> None:
    summary = tmp_path / "summary.md"
    done = cede_(
        "gate", files / "old.json", "--min-coverage", "0.8", "--min-flops", "1", "--max-delegates",
        "3", "--baseline", files / "old.json", "-o", summary,
    )  # fmt: skip
    assert (done.exit_code, done.output) == (0, "")
    assert summary.read_text().startswith("# old.json: passed\n")


def test_a_baseline_forbids_falling_back(files: Path) -> None:
    done = cede_("gate", files / "new.json", "--baseline", files / "old.json")
    assert done.exit_code == 4
    assert "1 ops fell back: aten_linear_default_1 (fast: shape: too wide" in done.stderr
    assert cede_("gate", files / "longer.json", "--baseline", files / "old.json").exit_code == 0


def test_a_baseline_forbids_more_delegates(files: Path) -> None:
    done = cede_("gate", files / "old.json", "--baseline", files / "new.json")
    assert "3 delegates, at most 2 are allowed" in done.stderr
    allowed = ["--max-delegates", "3"]
    assert (
        cede_("gate", files / "old.json", "--baseline", files / "new.json", *allowed).exit_code == 0
    )


@pytest.mark.parametrize(("took", "code"), [(1.05, 0), (1.2, 4)])
def test_slower_than_the_baseline(files: Path, took: float, code: int) -> None:
    for name, seconds in (("old", 1.0), ("new", took)):
        data = json.loads((files / "old.json").read_text())
        data["measured"] = {"seconds": seconds}
        (files / f"{name}.timed").write_text(json.dumps(data))
    asked = ["--baseline", files / "old.timed", "--max-slower", "0.1"]
    done = cede_("gate", files / "new.timed", *asked)
    assert done.exit_code == code
    assert ("20.0% over the baseline's 1.00 s" in done.stderr) == bool(code)


WRONG = {
    "text": ("no json", "not JSON"),
    "another json": ('{"a": 1}', "neither a plan (cede plan -o) nor a report"),
    "another schema": (
        '{"schema": 99, "ops": [], "totals": {}, "delegates": []}',
        "schema: is 99, this cede reads 1",
    ),
    "a hole": (
        '{"schema": 1, "ops": [{}], "totals": {}, "delegates": []}',
        "not a report as cede writes it (KeyError: 'scope')",
    ),
}


@pytest.mark.parametrize("case", WRONG)
def test_what_is_no_report_is_one_clear_error(files: Path, case: str) -> None:
    text, told = WRONG[case]
    (files / "wrong").write_text(text)
    done = cede_("gate", files / "wrong")
    assert (done.exit_code, done.stdout) == (2, "")
    assert f"error: {files / 'wrong'}: " in done.stderr
    assert told in done.stderr


CLASHES = {
    ("diff", "old.plan", "new.json"): "old.plan is a plan and new.json a report",
    ("gate", "new.json", "--max-seconds", "1"): "new.json: has no seconds; write it with",
    ("gate", "new.json", "--max-slower", "1"): "needs a baseline",
    ("gate", "old.plan", "--min-flops", "1"): "a plan has no FLOPs; give a report",
}


@pytest.mark.parametrize("words", CLASHES)
def test_what_can_not_be_answered_is_said(
    files: Path, words: tuple[str, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(files)
    done = cede_(*words)
    assert done.exit_code == 2
    assert CLASHES[words] in done.stderr
