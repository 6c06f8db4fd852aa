"""Policy and what-ifs on real programs: who gets what, and that the numbers stay right."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
import torch
from click.testing import CliRunner, Result
from executorch.exir import to_edge_transform_and_lower
from torch import nn

import cede
import cede.api
from cede.cli import main
from cede.model import load_model
from cede.whatif import ranked, what_if

if TYPE_CHECKING:
    from pathlib import Path

    from torch.export import ExportedProgram

    from cede.planning import Plan

NORMS = """
import torch
from torch import nn

class Block(nn.Module):
    def __init__(self, channels):
        super().__init__()
        self.norm = nn.GroupNorm(4, channels)
        self.conv = nn.Conv2d(channels, channels, 3, padding=1)

    def forward(self, x):
        return x + self.conv(nn.functional.silu(self.norm(x)))

def make():
    torch.manual_seed(0)
    blocks = [Block(16) for _ in range(4)]
    model = nn.Sequential(
        nn.Conv2d(4, 16, 3, padding=1), *blocks, nn.Upsample(scale_factor=2), Block(16),
        nn.Conv2d(16, 4, 3, padding=1),
    )
    return model, (torch.randn(1, 4, 16, 16),)
"""


class Two(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = nn.Linear(8, 16), nn.Linear(16, 4)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.second(torch.erf(self.first(x)))


def two() -> tuple[nn.Module, tuple[torch.Tensor, ...], ExportedProgram]:
    torch.manual_seed(0)
    model, args = Two().eval(), (torch.randn(2, 8),)
    return model, args, torch.export.export(model, args)


def config(*overrides: str) -> cede.Config:
    return cede.load_config("xnnpack-fp32", [f"policy.{text}" for text in overrides])


def modules(plan: Plan) -> set[str]:
    assert plan.graph is not None
    return {plan.graph.op(op).module for op in plan.delegation_of()}


def test_excluding_one_of_two_linears_by_module_leaves_the_other_delegated() -> None:
    _, args, program = two()
    rules = config("exclude=[module:first]")
    lowered = cede.lower(program, config=rules)
    assert modules(lowered.plan) == {"second"}
    refused = {given.op: given.reason for given in lowered.plan.refusals}
    assert refused["aten_addmm_default"].detail == (
        "policy.exclude[0] of override (module:first) excludes aten_addmm_default from xnnpack"
    )
    assert lowered.plan.warnings == ()
    assert cede.check(lowered, [args], rules).passed


def test_an_existing_script_gets_the_same_and_the_same_plan() -> None:
    _, _, program = two()
    rules = config("exclude=[module:first]")
    ours = cede.partitioner("xnnpack", config=rules)
    to_edge_transform_and_lower(program, partitioner=[ours]).to_executorch()
    assert ours.plan == cede.plan(program, rules)


def test_a_rule_by_operator_knows_the_parts_that_it_was_decomposed_to() -> None:
    _, _, program = two()
    plan = cede.plan(program, config("exclude=['op:aten.linear,module:first']"))
    assert modules(plan) == {"second"}
    assert plan.warnings == ()
    refused = {given.op for given in plan.refusals if given.reason.code is cede.Code.POLICY}
    assert refused == {"aten_permute_copy_default", "aten_addmm_default"}


def test_what_is_required_and_pinned_is_told_before_compiling() -> None:
    _, _, program = two()
    rules = config("require=['op:aten.erf']", "pin=['op:aten.erf,backend:xnnpack']")
    for step in (cede.report, lambda p, c: cede.lower(p, config=c)):
        with pytest.raises(cede.PolicyError) as caught:
            step(program, rules)
        lines = str(caught.value).splitlines()
        assert lines[0].startswith("policy.pin[0] of override (op:aten.erf,backend:xnnpack) is not")
        assert lines[2].startswith("policy.require[0] of override (op:aten.erf) is not met")
        assert lines[3].startswith("  aten_erf_default (aten.erf.default) at test_policy.py:")
        assert "xnnpack: " in lines[3]


def test_a_pin_takes_ops_from_the_backend_that_comes_first() -> None:
    _, args, program = two()
    rules = cede.load_config("two-backends", ["policy.pin=['module:second,backend:reference']"])
    lowered = cede.lower(program, config=rules)
    graph = lowered.plan.graph
    assert graph is not None
    backends = {
        graph.op(op).module: given.backend for op, given in lowered.plan.delegation_of().items()
    }
    assert backends == {"first": "xnnpack", "": "reference", "second": "reference"}
    assert cede.check(lowered, [args], rules).passed


def test_a_replayed_plan_is_held_against_the_policy() -> None:
    _, _, program = two()
    plan = cede.plan(program, config())
    assert cede.lower(program, plan, config("fallback=warn")).plan.warnings != ()
    with pytest.raises(cede.PolicyError, match="is not met: in a delegate: 1 op\n  aten_linear"):
        cede.lower(program, plan, config("exclude=[module:first]"))


def test_a_delegate_that_is_split_gives_the_same_numbers() -> None:
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(8, 8), nn.ReLU(), nn.Linear(8, 8), nn.Sigmoid()).eval()
    args = (torch.randn(2, 8),)
    limited = cede.load_config("xnnpack-fp32", ["limits.xnnpack.max_ops=2"])
    lowered = cede.export(model, args, config=limited)
    whole = cede.export(model, args, config="xnnpack-fp32")
    assert len(whole.plan.delegations) == 1
    assert len(lowered.plan.delegations) == 2
    assert len(lowered.plan.delegation_of()) == len(whole.plan.delegation_of())
    assert cede.check(lowered, [args]).passed


@pytest.fixture(scope="module")
def norms(tmp_path_factory: pytest.TempPathFactory) -> str:
    path: Path = tmp_path_factory.mktemp("norms") / "norms.py"
    path.write_text(NORMS)
    return f"{path}:make"


def cede_(*args: str) -> Result:
    return CliRunner().invoke(main, list(args))


def test_the_plan_names_the_operator_that_splits_the_model(norms: str) -> None:
    result = cede_("plan", norms)
    assert result.exit_code == 0, result.output
    assert " in 6 delegates, " in result.stdout
    table = result.stdout.split("Would merge most, if supported\n")[1].splitlines()
    row = next(line for line in table if line.startswith("aten.native_group_norm "))
    assert row.split()[1:6] == ["xnnpack", "5", "6", "->", "2"]
    assert "no rule for" in row


def test_whatif_tells_delegates_and_coverage(norms: str) -> None:
    result = cede_("whatif", norms, "--support", "aten.group_norm")
    assert result.exit_code == 0, result.output
    change = "supporting aten.group_norm on xnnpack"
    assert result.stdout.startswith(f"{change}: 6 -> 2 delegates, 22 -> 27 of 28 ops, +0.3 % FLOPs")


def test_whatif_in_python(norms: str) -> None:
    asked = cede.api.asked(load_model(norms).export(), "two-backends")
    both = [("aten.native_group_norm", "xnnpack"), ("aten.upsample_*", "xnnpack")]
    found = what_if(asked, support=both)
    assert found.after.delegates == 1
    found = what_if(asked, without=["reference"])
    assert (found.after.delegates, found.after.delegated, found.after.ops) == (6, 22, 28)
    found = what_if(asked, without=["xnnpack"])
    assert (found.after.delegates, found.after.delegated) == (1, 28)
    first, second = ranked(asked)[:2]
    assert (first.kind, first.backend) == ("aten.native_group_norm", "xnnpack")
    assert first.merged > second.merged
    with pytest.raises(cede.ConfigError, match=r"did you mean aten\.group_norm\?"):
        what_if(asked, support=[("aten.grup_norm", "xnnpack")])


def test_an_unmet_policy_exits_4_with_every_reason(norms: str) -> None:
    result = cede_("plan", norms, "policy.fallback=error", "policy.fallback_for=['module:**.norm']")
    assert result.exit_code == 4
    assert "policy.fallback of override is error: outside every delegate: 5 ops" in result.stderr
    assert result.stderr.count("xnnpack: unknown-op: ") == 5
    result = cede_("explain", norms, "aten_native_group_norm_default", "policy.fallback=error")
    assert result.exit_code == 0, result.output
    assert "unknown-op" in result.stdout
