"""Tags and constants: delegates that share them, several methods, one partitioner used twice."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from executorch.exir import to_edge_transform_and_lower
from torch import nn

from cede import api
from cede.errors import PlanError, PluginError
from cede.facts import read_graph
from cede.lowering.tags import write_tags
from cede.planning import Plan
from cede.types import Delegation, OpGraph, Part

CONFIGS = ["xnnpack-fp32", "reference", "two-backends"]


class Shared(nn.Module):
    """One weight in two delegates, one in a delegate and an op that is left, one returned."""

    def __init__(self) -> None:
        super().__init__()
        self.line = nn.Linear(4, 4)
        self.scale = nn.Parameter(torch.randn(4))

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, ...]:
        first = self.line(x) * self.scale
        left = torch.cumsum(self.scale, 0) + torch.cumsum(first, 1)
        return self.line(left), self.scale, self.line.weight


@pytest.mark.parametrize("config", CONFIGS)
def test_constants_that_are_shared_or_returned(config: str) -> None:
    torch.manual_seed(0)
    model, x = Shared().eval(), torch.randn(3, 4)
    lowered = api.lower(torch.export.export(model, (x,)), config=config)
    if config == "xnnpack-fp32":
        assert len(lowered.plan.delegations) == 2
        taken = lowered.plan.delegation_of()
        cumsums = [op.id for op in lowered.graph.ops if op.kind == "aten.cumsum"]
        assert len(cumsums) == 2
        assert not set(cumsums) & set(taken)
    got = api.run(lowered.buffer, [x], config=config).outputs
    for mine, wanted in zip(got, model(x), strict=True):
        torch.testing.assert_close(mine, wanted.detach())


class Other(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.line = nn.Linear(4, 2)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.cumsum(torch.tanh(self.line(x)), 0)


def programs() -> tuple[dict[str, nn.Module], torch.Tensor, dict[str, Any]]:
    torch.manual_seed(0)
    models = {"forward": Shared().eval(), "other": Other().eval()}
    x = torch.randn(3, 4)
    return models, x, {name: torch.export.export(made, (x,)) for name, made in models.items()}


def outputs(edge: Any, x: torch.Tensor, method: str) -> list[torch.Tensor]:
    return api.run(bytes(edge.to_executorch().buffer), [x], method).outputs


def test_two_methods_with_one_partitioner() -> None:
    models, x, given = programs()
    partitioner = api.partitioner("xnnpack")
    edge = to_edge_transform_and_lower(given, partitioner=[partitioner])
    assert [len(plan.delegations) for plan in partitioner.plans] == [2, 1]
    first, second = partitioner.plans
    assert first.fingerprint != second.fingerprint
    buffer = bytes(edge.to_executorch().buffer)
    for name, model in models.items():
        wanted = model(x)
        wanted = wanted if isinstance(wanted, tuple) else (wanted,)
        got = api.run(buffer, [x], name).outputs
        for mine, other in zip(got, wanted, strict=True):
            torch.testing.assert_close(mine, other.detach())


def test_one_partitioner_used_twice() -> None:
    models, x, given = programs()
    partitioner = api.partitioner("xnnpack")
    for name in ("other", "forward", "other"):
        edge = to_edge_transform_and_lower(given[name], partitioner=[partitioner])
        assert len(partitioner.plans) == 1
        assert partitioner.report().rows
        wanted = models[name](x)
        first = wanted[0] if isinstance(wanted, tuple) else wanted
        torch.testing.assert_close(outputs(edge, x, "forward")[0], first.detach())


def test_a_partitioner_without_a_plan_has_no_report() -> None:
    with pytest.raises(PlanError, match="no plan yet"):
        api.partitioner("xnnpack").report()


def test_an_unknown_op_is_an_error_before_anything_is_tagged() -> None:
    program = torch.export.export(Other().eval(), (torch.randn(3, 4),))
    plan = Plan(
        fingerprint="",
        delegations=(
            Delegation(id="d0", backend="x", parts=(Part(partitioner="p", ops=("gone",)),)),
        ),
    )
    with pytest.raises(PlanError, match="d0 names gone, which is not in the program"):
        write_tags(plan, OpGraph(), program)


class Handed(nn.Module):
    """A constant that a delegate reads as any tensor, beside weights that it packs."""

    def __init__(self) -> None:
        super().__init__()
        self.line = nn.Linear(4, 4)
        self.scale = nn.Parameter(torch.randn(4))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.line(x * self.scale) + self.scale


def handed() -> tuple[nn.Module, torch.Tensor, torch.export.ExportedProgram]:
    torch.manual_seed(0)
    model, x = Handed().eval(), torch.randn(3, 4)
    return model, x, torch.export.export(model, (x,))


def test_a_backend_says_which_constants_its_delegates_take_in() -> None:
    model, x, program = handed()
    lowered = api.lower(program, config="xnnpack-fp32")
    edge = lowered.edge
    assert set(edge.graph_signature.parameters) == {"scale"}
    [call] = [n for n in edge.graph.nodes if n.name.startswith("executorch_call_delegate")]
    assert [given.name for given in call.args[1:]] == ["x", "p_scale"]
    torch.testing.assert_close(api.run(lowered.buffer, [x]).outputs[0], model(x).detach())


def test_a_backend_that_fails_when_asked_about_a_constant_is_named() -> None:
    _, _, program = handed()

    def fails(constant: str, graph: OpGraph) -> bool:
        raise KeyError(constant)

    part = Part(partitioner="p", ops=("mul",))
    plan = Plan(fingerprint="", delegations=(Delegation(id="d0", backend="x", parts=(part,)),))
    with pytest.raises(PluginError, match=r"'x' failed when asked .* p_scale in: KeyError"):
        write_tags(plan, read_graph(program), program, {"x": fails})


class Weighted(nn.Module):
    """Control flow whose branches share weights with the ops around it."""

    def __init__(self) -> None:
        super().__init__()
        self.a, self.b = nn.Linear(4, 4), nn.Linear(4, 4)

    def forward(self, flag: torch.Tensor, x: torch.Tensor) -> torch.Tensor:
        y = torch.cond(flag, lambda x: self.a(x) + 1.0, lambda x: self.b(x), (self.a(x),))
        return self.b(torch.cumsum(y, 0))


@pytest.mark.parametrize("config", CONFIGS)
def test_branches_that_share_weights_with_delegates(config: str) -> None:
    torch.manual_seed(0)
    model, x = Weighted().eval(), torch.randn(3, 4)
    lowered = api.lower(torch.export.export(model, (torch.tensor(True), x)), config=config)
    for flag in (torch.tensor(True), torch.tensor(False)):
        got = api.run(lowered.buffer, [flag, x], config=config).outputs[0]
        torch.testing.assert_close(got, model(flag, x).detach())
