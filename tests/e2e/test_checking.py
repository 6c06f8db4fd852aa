"""A program that differs from eager names the first delegate at fault."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Any

import pytest
import torch
from tests.e2e.wrong_backend import SPOIL, Net, spoiled
from torch import nn

import cede
from cede import api
from cede.checking import compare
from cede.config import CheckConfig
from cede.errors import ConfigError, LoweringError
from cede.lowering.emit import Emitted

if TYPE_CHECKING:
    from pathlib import Path

    from cede.config import Config


def checked(model: nn.Module, calls: list[tuple[Any, ...]], config: Config) -> Any:
    lowered = api.lower(torch.export.export(model.eval(), calls[0]), config=config)
    return lowered, api.check(lowered, calls, config)


def test_a_right_backend_passes(tmp_path: Path) -> None:
    calls = [(torch.randn(3, 4),) for _ in range(2)]
    lowered, outcome = checked(Net(), calls, spoiled(tmp_path))
    assert len(lowered.plan.delegations) == 3
    assert outcome.passed, outcome.message
    assert outcome.delegate == ""
    assert outcome.message.startswith("2 call(s) agree with eager, largest difference ")
    assert outcome.max_error < 1e-4


@pytest.mark.parametrize("amount", ["1.0", "float('nan')"])
def test_the_delegate_at_fault_is_named(tmp_path: Path, amount: str) -> None:
    config = spoiled(tmp_path, SPOIL.replace("AMOUNT", amount))
    lowered, outcome = checked(Net(), [(torch.randn(3, 4),)], config)
    assert not outcome.passed
    at_fault = next(
        d for d in lowered.plan.delegations if lowered.graph.op(d.ops[-1]).module == "b"
    )
    assert outcome.delegate == at_fault.id == "d1"
    assert outcome.message.startswith("call 0: output 0 differs by up to ")
    assert "the first delegate that differs from eager on its own inputs is d1 of wrong" in (
        outcome.message
    )
    assert "in module b" in outcome.message
    assert "aten." in outcome.message
    if amount == "1.0":
        assert outcome.message.endswith("output 0 differs by up to 1")
    else:
        assert outcome.max_error == float("inf")


def test_a_difference_from_no_delegate(tmp_path: Path) -> None:
    config = spoiled(tmp_path)
    model = Net().eval()
    lowered = api.lower(torch.export.export(model, (torch.randn(3, 4),)), config=config)
    other = nn.Linear(4, 2)
    source = torch.export.export(nn.Sequential(other).eval(), (torch.randn(3, 4),))
    made = Emitted(source=source, edge=lowered.edge, executorch=lowered.executorch)
    wrong = dataclasses.replace(lowered, emission=made)
    outcome = api.check(wrong, [(torch.randn(3, 4),)], config)
    assert not outcome.passed
    assert outcome.delegate == ""
    assert "every delegate alone agrees with eager on its own inputs" in outcome.message


class Counts(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.b = nn.Linear(4, 4)
        self.register_buffer("seen", torch.ones(4))
        self.register_buffer("calls", torch.zeros(1, dtype=torch.int64))

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        self.seen.mul_(2.0).add_(self.b(x).sum(0))
        self.calls.add_(1)
        return torch.cumsum(self.seen, 0), self.calls + 0


@pytest.mark.parametrize("config", ["xnnpack-fp32", "reference", "two-backends"])
def test_state_and_integers_over_calls(config: str) -> None:
    model = Counts().eval()
    calls = [(torch.randn(3, 4),) for _ in range(3)]
    lowered = api.lower(torch.export.export(model, calls[0]), config=config)
    for _ in range(2):  # checking twice starts from the same state
        outcome = api.check(lowered, calls, config)
        assert outcome.passed, outcome.message
    assert model.calls.item() == 0, "the user's module keeps its state"


def test_inputs_are_not_changed_by_checking() -> None:
    class Writes(nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return torch.relu(x.add_(1.0))

    x = torch.zeros(3)
    lowered = api.lower(torch.export.export(Writes(), (torch.zeros(3),)))
    outcome = api.check(lowered, [(x,)])
    assert outcome.passed, outcome.message
    assert torch.equal(x, torch.zeros(3))


TOLERANCE = CheckConfig(atol=1e-3, rtol=1e-3)
t = torch.tensor
nan, inf = float("nan"), float("inf")


@pytest.mark.parametrize(
    ("mine", "wanted", "fault"),
    [
        ([t([1.0])], [t([1.0])], ""),
        ([t([1.0015])], [t([1.0])], ""),
        ([t([1.0025])], [t([1.0])], "output 0 differs by up to 0.0025"),
        ([t([1.0]), t([5])], [t([1.0]), t([6])], "output 1 differs by up to 1"),
        ([t([nan])], [t([nan])], ""),
        ([t([nan])], [t([1.0])], "output 0 differs by up to inf"),
        ([t([1.0])], [t([nan])], "output 0 differs by up to inf"),
        ([t([inf, -inf])], [t([inf, -inf])], ""),
        ([t([inf])], [t([-inf])], "output 0 differs by up to inf"),
        ([t([1.0])], [t([inf])], "output 0 differs by up to inf"),
        ([t([True])], [t([False])], "output 0 differs by up to 1"),
        ([t([1, 2**40])], [t([1, 2**40])], ""),
        ([t([2**62 + 1])], [t([2**62])], "output 0 differs by up to 1"),
        ([t([[1.0]])], [t([1.0])], "output 0 is torch.float32[1, 1] instead of torch.float32[1]"),
        ([t([1])], [t([1.0])], "output 0 is torch.int64[1] instead of torch.float32[1]"),
        ([1.0], [t([1.0])], "output 0 is 1.0 instead of a tensor"),
        ([], [t([1.0])], "0 outputs instead of 1"),
        ([3], [3], ""),
        ([3], [4], "output 0 is 3 instead of 4"),
        ([t([])], [t([])], ""),
        ([t([1 + 2j])], [t([1 + 3j])], "output 0 differs by up to 1"),
        ([t([1 + 2j])], [t([1 + 2j])], ""),
        ([t([1.0078], dtype=torch.bfloat16)], [t([1.0], dtype=torch.bfloat16)], ""),
        ([t([1.1], dtype=torch.bfloat16)], [t([1.0], dtype=torch.bfloat16)],
         "output 0 differs by up to 0.102"),
    ],
)  # fmt: skip
def test_comparing(mine: list[Any], wanted: list[Any], fault: str) -> None:
    seen = compare(mine, wanted, TOLERANCE)
    error, found = seen.max_error, seen.fault
    assert found == fault
    assert (error > 0.001) == bool(fault) or (not fault and error <= 0.01)


class Scaled(nn.Module):
    def forward(self, x: torch.Tensor, *, by: torch.Tensor) -> torch.Tensor:
        return x * by


def test_calls_that_can_t_be_compared() -> None:
    x = torch.ones(2)
    lowered = api.export(Scaled(), (x,), {"by": x}, config="xnnpack-fp32")
    with pytest.raises(ConfigError, match="no call to compare"):
        api.check(lowered, [])
    with pytest.raises(LoweringError, match=r"call 0: eager can't take .*'by'"):
        api.check(lowered, [(x, x)])


class Mixed(nn.Module):
    def forward(self, x: torch.Tensor, *, by: torch.Tensor, less: torch.Tensor) -> torch.Tensor:
        return x * by - less


def test_keyword_inputs_in_any_order() -> None:
    x, two = torch.ones(2), torch.full((2,), 2.0)
    lowered = api.export(Mixed(), (x,), {"by": two, "less": x}, config="xnnpack-fp32")
    calls = [
        cede.Inputs(args=(x,), kwargs={"by": two, "less": x}),
        cede.Inputs(args=(x,), kwargs={"less": x * 3, "by": two}),
    ]
    outcome = api.check(lowered, calls)
    assert outcome.passed, outcome.message


KEYWORDS = """
import torch

class Scaled(torch.nn.Module):
    def forward(self, x, *, by):
        return x * by

def make():
    return Scaled(), (torch.ones(2),), {"kwargs": {"by": torch.full((2,), 3.0)}}
"""


def test_the_command_line_compares_keyword_inputs(tmp_path: Path) -> None:
    from click.testing import CliRunner

    from cede.cli import main

    (tmp_path / "scaled.py").write_text(KEYWORDS)
    out = tmp_path / "scaled.pte"
    command = ["export", f"{tmp_path / 'scaled.py'}:make", "-b", "reference", "-o", str(out)]
    done = CliRunner().invoke(main, [*command, "--check"])
    assert done.exit_code == 0, done.output
    assert "1 call(s) agree with eager" in done.stderr
    assert out.exists()
