"""Plans are saved, edited and lowered later; partitioners that fail don't stop a plan."""

from __future__ import annotations

import dataclasses
import json
from typing import TYPE_CHECKING, Any

import pytest
import torch
from torch import nn

from cede import api
from cede.errors import ConfigError, LoweringError, PlanError
from cede.planning import Plan

if TYPE_CHECKING:
    from pathlib import Path

    from cede.config import Config


class Net(nn.Module):
    def __init__(self, width: int = 8) -> None:
        super().__init__()
        self.a, self.b, self.c = nn.Linear(4, width), nn.Linear(width, width), nn.Linear(width, 2)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        h = torch.cumsum(torch.relu(self.a(x)), 0)
        return self.c(torch.cumsum(torch.tanh(self.b(h)) + h, 0))


@pytest.fixture(scope="module")
def given() -> tuple[Any, torch.Tensor, torch.Tensor, Plan]:
    torch.manual_seed(0)
    model, x = Net().eval(), torch.randn(3, 4)
    program = torch.export.export(model, (x,))
    return program, x, model(x).detach(), api.plan(program)


def edited(plan: Plan, change: Any) -> Plan:
    data = json.loads(plan.to_json())
    change(data)
    return Plan.from_json(json.dumps(data))


def test_a_saved_plan_gives_the_same_delegates(given: Any, tmp_path: Path) -> None:
    program, x, wanted, plan = given
    assert len(plan.delegations) == 3
    path = tmp_path / "plan.json"
    plan.save(path)
    lowered = api.lower(program, Plan.from_json(path.read_text(encoding="utf-8"), str(path)))
    assert lowered.plan == plan
    assert lowered.buffer == api.lower(program).buffer
    torch.testing.assert_close(api.run(lowered.buffer, [x]).outputs[0], wanted)
    assert lowered.report().rows


def test_another_programs_plan(given: Any) -> None:
    _, x, _, plan = given
    other = torch.export.export(Net(width=6).eval(), (x,))
    with pytest.raises(PlanError, match="the plan was made for another program: its fingerprint"):
        api.lower(other, plan)


def test_a_config_that_asks_for_other_backends(given: Any) -> None:
    program, _, _, plan = given
    with pytest.raises(ConfigError, match=r"for backends \[xnnpack\], but the config asks for"):
        api.lower(program, plan, "reference")


@pytest.mark.parametrize("dropped", [0, 1, 2])
def test_a_delegation_dropped_by_hand(given: Any, dropped: int) -> None:
    program, x, wanted, plan = given
    fewer = edited(plan, lambda data: data["delegations"].pop(dropped))
    lowered = api.lower(program, fewer)
    calls = [n for n in lowered.edge.graph.nodes if "call_delegate" in n.name]
    assert len(calls) == 2
    torch.testing.assert_close(api.run(lowered.buffer, [x]).outputs[0], wanted)


def test_an_op_moved_out_of_a_delegation(given: Any) -> None:
    program, x, wanted, plan = given
    assert plan.graph is not None
    (tanh,) = [op.id for op in plan.graph.ops if op.kind == "aten.tanh"]
    at = next(i for i, d in enumerate(plan.delegations) if tanh in d.ops)

    def change(data: Any) -> None:
        part = data["delegations"][at]["parts"][0]
        before, after = (
            part["ops"][: part["ops"].index(tanh)],
            part["ops"][part["ops"].index(tanh) + 1 :],
        )
        rest = json.loads(json.dumps(data["delegations"][at]))
        part["ops"], rest["parts"][0]["ops"], rest["id"] = before, after, "rest"
        data["delegations"].insert(at + 1, rest)

    lowered = api.lower(program, edited(plan, change))
    assert len(lowered.plan.delegations) == 4
    torch.testing.assert_close(api.run(lowered.buffer, [x]).outputs[0], wanted)


def test_a_cycle_made_by_hand(given: Any) -> None:
    program, _, _, plan = given

    def join(data: Any) -> None:
        first, second = data["delegations"][:2]
        first["parts"] += second["parts"]
        data["delegations"].remove(second)

    with pytest.raises(PlanError) as caught:
        api.lower(program, edited(plan, join))
    text = str(caught.value)
    assert text.startswith("the plan can't be lowered: d0 is not convex: ")
    assert "aten_cumsum_default" in text


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        (lambda part: part["ops"].append("gone"), "d0 names 'gone', which is no op of this graph"),
        (lambda part: part["ops"].append(part["ops"][0]), "d0 names aten_linear_default twice"),
        (lambda part: part["ops"].clear(), "d0 has no ops; remove it"),
    ],
)
def test_other_mistakes_by_hand(given: Any, change: Any, sentence: str) -> None:
    program, _, _, plan = given
    wrong = edited(plan, lambda data: change(data["delegations"][0]["parts"][0]))
    with pytest.raises(PlanError) as caught:
        api.lower(program, wrong)
    assert str(caught.value).startswith(f"the plan can't be lowered: {sentence}")


def test_a_kept_op_that_a_plan_leaves_is_told() -> None:
    program = torch.export.export(nn.Hardswish(), (torch.randn(3),))
    plan = api.plan(program)
    assert plan.kept == ("hardswish",)
    lowered = api.lower(program, dataclasses.replace(plan, delegations=()))
    (warning,) = lowered.warnings
    assert warning.startswith("this runtime has no kernel for aten::hardswish.out (needed by")
    with pytest.raises(LoweringError, match=r"no kernel for operator aten::hardswish\.out"):
        api.run(lowered.buffer, [torch.randn(3)])


PLUGIN = """
import time
import cede

class Mine:
    name, backend = "mine", "reference"

    def keeps(self, program):
        return cede.Keep()

    def claim(self, program):
        first = program.graph.ops[0]
        reason = cede.Reason(code=cede.Code.DECLINED, detail="not the first")
        yield cede.Refusal(partitioner=self.name, op=first.id, reason=reason)
        BODY

@cede.hookimpl
def cede_partitioners():
    yield Mine()
"""


def beside(tmp_path: Path, body: str) -> Config:
    plugin = tmp_path / "mine.py"
    plugin.write_text(PLUGIN.replace("BODY", body))
    return api.load_config(
        None,
        [f"plugins.files=[{plugin}]", "backends=[reference]", "partitioners=[mine,reference]",
         "seconds=5"],
    )  # fmt: skip


CHANGES = (
    "program.exported.graph.call_function(print)",
    "next(iter(program.exported.graph.nodes)).name = 'changed'",
    "next(n for n in program.exported.graph.nodes if n.kwargs == {}).kwargs = {'a': 1}",
)


@pytest.mark.parametrize(
    ("body", "failure"),
    [
        ("raise RuntimeError('lost')", "RuntimeError: lost"),
        ("raise SystemExit(1)", "SystemExit: 1"),
        *((body, "it changed the graph (") for body in CHANGES),
    ],
)
def test_a_partitioner_that_fails_beside_a_good_one(
    given: Any, tmp_path: Path, body: str, failure: str
) -> None:
    program, x, wanted, _ = given
    config = beside(tmp_path, body)
    lowered = api.lower(program, config=config)
    (warning,) = lowered.plan.warnings
    assert warning.startswith("partitioner mine (")
    assert failure in warning
    mine = {row.op: row.reason for row in lowered.plan.refusals if row.partitioner == "mine"}
    assert set(mine) == {op.id for op in lowered.graph.ops}
    first, *others = (mine[op.id] for op in lowered.graph.ops)
    assert (first.code.value == "declined") == ("changed" not in failure)
    for reason in others:
        assert reason.code.value == "plugin-failed"
        assert str(tmp_path / "mine.py") in reason.detail or "mine" in reason.detail
        assert failure in reason.detail
    taken = {part.partitioner for d in lowered.plan.delegations for part in d.parts}
    assert taken == {"reference"}
    torch.testing.assert_close(api.run(lowered.buffer, [x], config=config).outputs[0], wanted)


def test_weights_can_not_be_dropped_by_a_partitioner(given: Any, tmp_path: Path) -> None:
    program, x, wanted, _ = given
    config = beside(tmp_path, "program.exported.state_dict.clear()")
    lowered = api.lower(program, config=config)
    torch.testing.assert_close(api.run(lowered.buffer, [x], config=config).outputs[0], wanted)


NAIVE = """
import cede
from cede.partitioners.adopt import Adopted

def make(options):
    from executorch.exir.backend.partitioner import DelegationSpec, Partitioner, PartitionResult

    class OneTag(Partitioner):
        def partition(self, exported_program):
            for node in exported_program.graph.nodes:
                if node.op == "call_function" and "cumsum" not in node.name:
                    node.meta["delegation_tag"] = "all"
            spec = DelegationSpec("CedeReferenceBackend", [])
            return PartitionResult(exported_program, {"all": spec})

    return OneTag()

@cede.hookimpl
def cede_partitioners():
    yield Adopted(
        name="naive", backend="reference", delegate_id="CedeReferenceBackend", make=make
    )
"""


def test_one_tag_for_everything_is_settled_into_convex_delegates(tmp_path: Path) -> None:
    class Residual(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.a, self.b, self.c = nn.Linear(8, 8), nn.Linear(8, 8), nn.Linear(8, 8)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            h = self.a(x)
            s = torch.cumsum(h, -1)
            return self.c(self.b(s) + h) + torch.cumsum(s, 0) * h

    plugin = tmp_path / "naive.py"
    plugin.write_text(NAIVE)
    config = api.load_config(
        None, [f"plugins.files=[{plugin}]", "backends=[reference]", "partitioners=[naive]"]
    )
    model, x = Residual().eval(), torch.randn(3, 8)
    lowered = api.lower(torch.export.export(model, (x,)), config=config)
    assert len(lowered.plan.delegations) >= 2
    left = [op.kind for op in lowered.graph.ops if op.id not in lowered.plan.delegation_of()]
    assert left == ["aten.cumsum", "aten.cumsum"]
    assert all(lowered.graph.is_convex(d.ops) for d in lowered.plan.delegations)
    got = api.run(lowered.buffer, [x], config=config).outputs[0]
    torch.testing.assert_close(got, model(x).detach())
