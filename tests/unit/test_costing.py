"""Costs by config: where a plan's numbers come from, and what the report makes of them."""

from __future__ import annotations

import csv
import io
import json
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest
import torch
from executorch.exir import to_edge_transform_and_lower

import cede
from cede.calibrate.cases import CASES, single_ops
from cede.claim import Answers
from cede.config import Config, load_config
from cede.costs import Profile, predicted, write_profile
from cede.errors import ConfigError, PluginError
from cede.host import Host
from cede.lowering.costing import costs_for
from cede.reporting import make_report
from cede.types import Claim, Op, OpGraph, Rates, TensorFact

if TYPE_CHECKING:
    from pathlib import Path

FACT = TensorFact(shape=(1,), dtype="float32", nbytes=4)
GRAPH = OpGraph(ops=tuple(Op(id=name, target="aten.op.default", outputs=(FACT,)) for name in "abc"))
PLUGIN = """
from cede.hookspec import hookimpl
from cede.types import Backend, Rates

@hookimpl
def cede_backends():
    yield Backend(name="mute", delegate_id="Mute")
    yield Backend(name="told", delegate_id="Told", rates=lambda: Rates(
        flops_per_second=7.0, bytes_per_second=7.0))
    yield Backend(name="own", delegate_id="Own", cost=lambda op: 0.5 if op.id == "a" else None)
    yield Backend(name="bad", delegate_id="Bad", cost=lambda op: 1 / 0)
    yield Backend(name="wrong", delegate_id="Wrong", rates=lambda: 3)
"""


@pytest.fixture
def host(tmp_path: Path) -> Host:
    file = tmp_path / "plugin.py"
    file.write_text(PLUGIN)
    return Host.load(load_config(None, [f"plugins.files=[{file}]"]))


def answers(cost: float | None, *ops: str, backend: str = "own") -> list[Answers]:
    claim = Claim(partitioner="p", backend=backend, ops=frozenset(ops), cost=cost)
    return [Answers(claims=(claim,), refusals=(), warnings=())]


def config(**given: object) -> Config:
    return replace(Config(settle="cost"), **given)


def test_no_costs_unless_asked_for(host: Host):
    assert costs_for(GRAPH, [], ["mute"], host, Config()) == (None, ())
    found, _ = costs_for(GRAPH, [], ["told"], host, Config(costs="roofline"))
    assert found is not None


def test_a_backend_that_tells_nothing_is_told_of(host: Host):
    found, warnings = costs_for(GRAPH, [], ["mute", "told", "own"], host, config())
    assert found is not None
    assert found.backends["told"].flops_per_second == 7.0
    (warning,) = warnings
    assert "backend mute tells no rates" in warning


def test_a_backends_own_seconds_go_before_its_rates_and_a_claims_before_these(host: Host):
    found, _ = costs_for(GRAPH, [], ["own"], host, config())
    assert found is not None
    assert found.given == {("own", "a"): 0.5}
    found, _ = costs_for(GRAPH, answers(3.0, "a", "b"), ["own"], host, config())
    assert found is not None
    assert found.given == {("own", "a"): 1.5, ("own", "b"): 1.5}


def test_a_profile_goes_before_a_backends_own(host: Host, tmp_path: Path):
    file = tmp_path / "p.json"
    measured = Rates(flops_per_second=3.0, bytes_per_second=3.0)
    file.write_text(
        write_profile(Profile(machine={}, fallback=measured, backends={"own": measured}))
    )
    found, warnings = costs_for(GRAPH, [], ["own", "told"], host, config(costs=str(file)))
    assert found is not None
    assert (found.fallback, found.backends["own"]) == (measured, measured)
    assert found.backends["told"].flops_per_second == 7.0
    assert (found.given, warnings, found.origin) == ({}, (), str(file))


def test_a_backend_that_fails_to_tell_is_named(host: Host):
    found, warnings = costs_for(GRAPH, [], ["bad"], host, config())
    assert found is not None
    assert any("backend bad (" in text and "ZeroDivisionError" in text for text in warnings)
    with pytest.raises(PluginError, match=r"backend wrong \(.*its rates can't be had.*int"):
        costs_for(GRAPH, [], ["wrong"], host, config())


@pytest.mark.parametrize("cost", [-1.0, float("nan"), float("inf")])
def test_impossible_seconds_of_a_claim_are_told(host: Host, cost: float):
    with pytest.raises(PluginError, match="partitioner p: its claim's cost"):
        costs_for(GRAPH, answers(cost, "a"), ["own"], host, config())


def test_a_profile_is_found_beside_the_config(tmp_path: Path):
    file = tmp_path / "mine.yaml"
    file.write_text("costs: p.json\n")
    assert load_config(file).costs == str(tmp_path / "p.json")
    assert load_config(None, ["costs=roofline"]).costs == "roofline"
    assert load_config().costs == ""


class Net(torch.nn.Module):
    """A large linear layer, and one op so small that no delegate is worth it."""

    def __init__(self) -> None:
        super().__init__()
        self.linear = torch.nn.Linear(256, 256)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.tan(self.linear(x)).mean(-1).relu()


@pytest.fixture(scope="module")
def program() -> torch.export.ExportedProgram:
    return torch.export.export(Net().eval(), (torch.randn(64, 256),))


def test_cost_mode_plans_a_real_program_and_the_report_foresees_it(program):
    plain = cede.plan(program, load_config("xnnpack-fp32"))
    assert len(plain.delegations) == 2
    plan = cede.plan(program, load_config("xnnpack-fp32", ["settle=cost"]))
    assert len(plan.delegations) == 1
    assert [loss.reason.code.value for loss in plan.losses] == ["too-small"]
    assert plan.graph is not None
    assert plan.costs is not None
    report = make_report(plan, plan.graph)
    foreseen = predicted(plan.graph, plan, plan.costs)
    assert report.prediction == foreseen
    assert "predicted" in report.text()
    assert report.summary().splitlines()[1].startswith("predicted ")
    (row,) = csv.DictReader(io.StringIO(report.delegates_csv()))
    assert float(row["predicted_seconds"]) == pytest.approx(foreseen.delegates[0].seconds)
    assert json.loads(report.json())["predicted"]["seconds"] == pytest.approx(foreseen.seconds)
    assert foreseen.seconds <= predicted(plan.graph, plain, plan.costs).seconds


def test_without_costs_a_report_says_nothing_of_seconds(program):
    plan = cede.plan(program, load_config("xnnpack-fp32"))
    assert plan.graph is not None
    report = make_report(plan, plan.graph)
    assert "predicted" not in report.text() + report.delegates_csv() + report.json()


def test_a_pinned_op_stays_in_cost_mode(program):
    pin = ["settle=cost", "policy.pin=[{op: aten.relu, backend: xnnpack}]"]
    plan = cede.plan(program, load_config("xnnpack-fp32", pin))
    assert any("relu" in op for given in plan.delegations for op in given.ops)


def test_what_is_kept_whole_and_does_not_pay_is_decomposed(program, tmp_path: Path):
    fast = Rates(flops_per_second=1e12, bytes_per_second=1e12)
    slow = replace(fast, launch_seconds=1.0)
    file = tmp_path / "p.json"
    file.write_text(write_profile(Profile(machine={}, fallback=fast, backends={"xnnpack": slow})))
    wanted = load_config("xnnpack-fp32", ["settle=cost", f"costs={file}"])
    partitioner = cede.partitioner(config=wanted)
    edge = to_edge_transform_and_lower(program, partitioner=[partitioner])
    called = [node.name for node in edge.exported_program().graph.nodes if node.op != "placeholder"]
    assert any("addmm" in name for name in called)
    assert not any("linear" in name or "delegate" in name for name in called)
    assert partitioner.plan is not None
    assert {loss.reason.code.value for loss in partitioner.plan.losses} == {"too-small"}
    assert cede.lower(program, config=wanted).plan.delegations == ()


def test_the_cases_of_a_calibration_are_counted():
    assert len(list(single_ops())) == CASES


def test_a_bad_profile_ends_planning_with_its_path(program, tmp_path: Path):
    (tmp_path / "p.json").write_text("{}")
    wanted = load_config("xnnpack-fp32", [f"costs={tmp_path}/p.json"])
    with pytest.raises(ConfigError, match=r"p\.json: \$\.schema is missing"):
        cede.plan(program, wanted)
