"""A program that differs from eager names the first delegate at fault."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
import torch
from torch import nn

from cede import api
from cede.checking import _compare
from cede.config import CheckConfig
from cede.errors import ConfigError, LoweringError

if TYPE_CHECKING:
    from pathlib import Path

    from cede.config import Config

# A backend whose compiler adds `wrong` to every float constant of the delegates it is told.
PLUGIN = """
import cede

class Mine:
    name, backend = "mine", "wrong"

    def keeps(self, program):
        return cede.Keep()

    def claim(self, program):
        reason = cede.Reason(code=cede.Code.DECLINED, detail="not that one")
        for op in program.graph.ops:
            if op.kind in ("aten.cumsum", "dim_order_ops._to_dim_order_copy"):
                yield cede.Refusal(partitioner=self.name, op=op.id, reason=reason)
            else:
                ops = frozenset({op.id})
                yield cede.Claim(partitioner=self.name, backend=self.backend, ops=ops)

def register():
    from executorch.exir.backend.backend_details import BackendDetails, PreprocessResult
    from cede.backends.reference.payload import dump

    class WrongBackend(BackendDetails):
        @staticmethod
        def preprocess(edge_program, compile_specs):
            import torch
            SPOIL
            return PreprocessResult(processed_bytes=dump(edge_program))

    globals()["WrongBackend"] = WrongBackend

def load(data):
    from cede.backends.reference import runner
    from cede.running.interpreter import Interpreter
    from cede.running.pte import read

    return Interpreter(read(data), lambda delegate, arguments: runner.Subprogram(delegate.data))

@cede.hookimpl
def cede_partitioners():
    yield Mine()

@cede.hookimpl
def cede_backends():
    yield cede.Backend(name="wrong", delegate_id="WrongBackend", register=register, load=load)
"""

SPOIL = """for name, value in edge_program.state_dict.items():
                if name == "b.bias":
                    edge_program.state_dict[name] = torch.nn.Parameter(value + AMOUNT, False)"""


class Net(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.a, self.b, self.c = nn.Linear(4, 4), nn.Linear(4, 4), nn.Linear(4, 2)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        h = torch.cumsum(self.a(x), 0)
        return self.c(torch.cumsum(self.b(h), 0))


def spoiled(tmp_path: Path, spoil: str = "pass") -> Config:
    plugin = tmp_path / "mine.py"
    plugin.write_text(PLUGIN.replace("SPOIL", spoil))
    return api.load_config(None, [f"plugins.files=[{plugin}]", "backends=[wrong]"])


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
    import dataclasses

    wrong = dataclasses.replace(
        lowered, source=torch.export.export(nn.Sequential(other).eval(), (torch.randn(3, 4),))
    )
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
    error, found = _compare(mine, wanted, TOLERANCE)
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
    with pytest.raises(LoweringError, match=r"call 0: eager can't take .* \['by'\]"):
        api.check(lowered, [(x, x)])
