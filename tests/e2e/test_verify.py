"""Verification tells each delegate and the whole apart; bisection names the op."""

from __future__ import annotations

import json
import math
from typing import TYPE_CHECKING, Any

import pytest
import torch
from click.testing import CliRunner
from tests.e2e.wrong_backend import SPOIL, Net, spoiled
from torch import nn

import cede
from cede import api
from cede.cli import main
from cede.errors import ConfigError
from cede.host import Host
from cede.types import Inputs
from cede.verifying.cases import CALLS, SIZES, VALUES, Case, cases_for
from cede.verifying.deep import _alone

if TYPE_CHECKING:
    from pathlib import Path

    from cede.verifying.records import Part, Verification

# The stock partitioner of XNNPACK without the vetoes on what its delegate gets wrong.
STOCK = """
import cede
from cede.partitioners.adopt import Adopted

def make(options):
    from executorch.backends.xnnpack.partition.xnnpack_partitioner import XnnpackPartitioner
    return XnnpackPartitioner()

def register():
    import executorch.backends.xnnpack.xnnpack_preprocess

@cede.hookimpl
def cede_partitioners():
    yield Adopted(name="stock", backend="stock", delegate_id="XnnpackBackend", make=make)

@cede.hookimpl
def cede_backends():
    yield cede.Backend(name="stock", delegate_id="XnnpackBackend", register=register)
"""


def rows(found: Verification, what: str) -> dict[str, Part]:
    return {part.case: part for part in found.parts if part.what == what}


class Running(nn.Module):
    """State, and a dynamic size that two inputs share."""

    def __init__(self) -> None:
        super().__init__()
        self.lin = nn.Linear(4, 4)
        self.register_buffer("sum", torch.full((4,), 2.0))

    def forward(self, x: torch.Tensor, y: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        h = torch.tanh(self.lin(x)) + y
        self.sum.add_(torch.cumsum(h, 0)[-1])
        return torch.sigmoid(h) * 2.0, self.sum * 1.0


def test_state_sizes_and_odd_values_of_a_right_program() -> None:
    size = torch.export.Dim("n", min=2, max=9)
    x = torch.randn(5, 4)
    with torch.no_grad():
        program = torch.export.export(
            Running().eval(), (x, x.clone()), dynamic_shapes={"x": {0: size}, "y": {0: size}}
        )
    lowered = api.lower(program, config="xnnpack-fp32")
    found = cede.verify(lowered, [(x, x)])
    assert found.passed, found.text()
    delegates = [given.id for given in lowered.plan.delegations]
    whole = rows(found, "whole")
    sizes = [name for name in whole if "=" in name]
    assert [name.partition("=")[2] for name in sizes] == ["2", "6", "9"]
    assert set(whole) == {"calls", *sizes, "zeros", "times 1000", "NaN", "infinity"}
    for given in delegates:
        assert set(rows(found, given)) == set(whole)
    assert rows(found, "whole, from a file").keys() == {"calls"}
    for part in found.parts:
        assert part.difference is not None
        assert part.difference.mean_error <= part.difference.max_error < 1e-3
        assert part.difference.sqnr > 60 or not part.difference.noise
    text = found.text()
    assert text.startswith(f"{len(found.parts)} of {len(found.parts)} comparisons agree with eager")
    assert len(found.text(verbose=True).splitlines()) > len(text.splitlines())


@pytest.mark.parametrize(("amount", "error"), [("0.5", 0.5), ("float('nan')", math.inf)])
def test_a_wrong_delegate_is_told_where_it_stands(
    tmp_path: Path, amount: str, error: float
) -> None:
    config = spoiled(tmp_path, SPOIL.replace("AMOUNT", amount))
    x = torch.randn(3, 4)
    lowered = api.lower(torch.export.export(Net().eval(), (x,)), config=config)
    found = cede.verify(lowered, [(x,)], config)
    assert not found.passed
    outcomes = {part.what: part for part in found.parts if part.case == "calls"}
    assert {what: part.outcome for what, part in outcomes.items()} == {
        "d0": "right", "d1": "wrong", "d2": "right", "whole": "wrong",
        "whole, from a file": "wrong",
    }  # fmt: skip
    assert outcomes["d1"].difference is not None
    assert outcomes["d1"].difference.max_error == pytest.approx(error)
    assert "first delegate d1 of wrong" in found.message
    assert "in module b" in found.message
    culprit = cede.bisect(lowered, [(x,)], config)
    assert culprit is not None
    assert (culprit.delegate, culprit.op.module) == ("d1", "b")
    assert "policy.exclude" in culprit.message


DEEP = """for node in list(edge_program.graph.nodes):
                if str(node.target).startswith("<EdgeOpOverload: aten.sin."):
                    node.target = exir_ops.edge.aten.cos.default
            edge_program.graph_module.recompile()"""


class Deep(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        for _ in range(3):
            x = torch.tanh(x) * 0.5 + 0.25
        x = torch.sin(x)
        for _ in range(3):
            x = torch.relu(x) - 0.125
        return x


def test_the_op_in_the_middle_of_a_delegate_is_named(tmp_path: Path) -> None:
    imported = "from executorch.exir.dialects._ops import ops as exir_ops\n            "
    config = spoiled(tmp_path, imported + DEEP)
    x = torch.rand(4)
    lowered = api.lower(torch.export.export(Deep(), (x,)), config=config)
    assert len(lowered.plan.delegations) == 1
    culprit = cede.bisect(lowered, [(x,)], config)
    assert culprit is not None
    assert culprit.op.target == "aten.sin.default"
    assert culprit.alone is True
    assert culprit.failed == 0
    assert culprit.tried <= 6  # 16 ops
    assert "test_verify.py:" in culprit.message


def test_no_culprit_and_no_call(tmp_path: Path) -> None:
    config = spoiled(tmp_path)
    lowered = api.lower(torch.export.export(Deep(), (torch.rand(4),)), config=config)
    assert cede.bisect(lowered, [(torch.rand(4),)], config) is None
    for ask in (cede.verify, cede.bisect):
        with pytest.raises(ConfigError, match="at least one call"):
            ask(lowered, [], config)  # type: ignore[operator]


class Reads(nn.Module):
    """Reads a bias that a delegate packs: memory that a runtime frees if it has a file."""

    def __init__(self) -> None:
        super().__init__()
        self.lin = nn.Linear(8, 8)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.lin(x) + self.lin.bias


def test_a_fault_that_shows_from_a_file_alone(tmp_path: Path) -> None:
    (tmp_path / "stock.py").write_text(STOCK)
    config = api.load_config(None, [f"plugins.files=[{tmp_path / 'stock.py'}]", "backends=[stock]"])
    x = torch.randn(2, 8)
    lowered = api.lower(torch.export.export(Reads().eval(), (x,)), config=config)
    found = cede.verify(lowered, [(x,)], config)
    assert not found.passed
    assert [part.what for part in found.parts if not part.good] == ["whole, from a file"]
    assert "whole, from a file" in found.message


def test_weights_whose_scale_a_delegate_drops_are_found(tmp_path: Path) -> None:
    from torchao.quantization import IntxWeightOnlyConfig, PerAxis, quantize_

    (tmp_path / "stock.py").write_text(STOCK)
    config = api.load_config(None, [f"plugins.files=[{tmp_path / 'stock.py'}]", "backends=[stock]"])
    model = nn.Sequential(nn.ReLU(), nn.Linear(32, 8), nn.Sigmoid()).eval()
    quantize_(model, IntxWeightOnlyConfig(torch.int8, PerAxis(0)))
    x = torch.randn(2, 32)
    lowered = api.lower(torch.export.export(model, (x,)), config=config)
    culprit = cede.bisect(lowered, [(x,)], config)
    assert culprit is not None
    assert culprit.op.module == "1"


def given(**options: Any) -> tuple[list[str], list[str]]:
    class Plain(nn.Module):
        def forward(self, ids: torch.Tensor, x: torch.Tensor) -> torch.Tensor:
            return x[ids]

    call = cede.Inputs(args=(torch.tensor([2, 0]), torch.randn(3, 2)))
    program = torch.export.export(Plain(), call.args, **options)
    cases, notes = cases_for(program, [call])
    for case in cases:
        for one in case.calls:
            assert one.args[0].max() <= 2  # places stay those of the example
            program.module()(*one.args)
    return [f"{case.kind} {case.name}" for case in cases], notes


def test_cases() -> None:
    odd = ("zeros", "times 1000", "NaN", "infinity")
    assert given()[0] == [f"{CALLS} calls", *(f"{VALUES} {name}" for name in odd)]
    names, notes = given(dynamic_shapes={"ids": {0: torch.export.Dim.DYNAMIC}, "x": None})
    assert sum(name.startswith(SIZES) for name in names) == 3
    names, notes = given(
        dynamic_shapes={"ids": {0: torch.export.Dim("n", min=2, max=2**30)}, "x": None}
    )
    assert sum(name.startswith(SIZES) for name in names) == 1
    assert len(notes) == 2
    assert "would take more than 256 MiB" in notes[0]


MODEL = """
import torch
from tests.e2e.wrong_backend import Net

def make():
    torch.manual_seed(0)
    return Net(), (torch.ones(3, 4),)
"""


def test_commands(tmp_path: Path) -> None:
    (tmp_path / "net.py").write_text(MODEL)
    model = f"{tmp_path / 'net.py'}:make"
    spoiled(tmp_path, SPOIL.replace("AMOUNT", "1.0"))
    wrong = [f"plugins.files=[{tmp_path / 'mine.py'}]", "-b", "wrong", "-q"]
    invoke = CliRunner().invoke
    good = invoke(main, ["export", model, "-b", "reference", "-q", "-o", str(tmp_path / "n.pte")])
    assert good.exit_code == 0, good.output
    done = invoke(main, ["verify", model, "--program", str(tmp_path / "n.pte"), "-f", "json"])
    assert done.exit_code == 0, done.output
    data = json.loads(done.stdout)
    assert data["passed"]
    assert {part["outcome"] for part in data["parts"]} == {"right"}
    assert {part["what"] for part in data["parts"]} == {"whole", "whole, from a file"}
    done = invoke(main, ["verify", model, *wrong])
    assert done.exit_code == 5
    assert "d1 (wrong)" in done.stdout
    assert "first delegate d1 of wrong" in done.stderr
    done = invoke(main, ["bisect", model, *wrong])
    assert done.exit_code == 5
    assert "delegate d1 of wrong goes wrong at" in done.stderr


class Counts(nn.Module):
    """Reads the next row of two at each call: the third has none."""

    def __init__(self) -> None:
        super().__init__()
        self.rows = nn.Buffer(torch.ones(2, 4))
        self.place = nn.Buffer(torch.zeros(1, dtype=torch.int64))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = torch.relu(x) + self.rows.index_select(0, self.place)
        self.place.add_(1)
        return y


@pytest.mark.parametrize(("calls", "outcome"), [(2, "right"), (3, "failed")])
def test_a_later_call_that_fails_is_no_delegate_s_success(calls: int, outcome: str) -> None:
    config = api.load_config(None, ["backends=[xnnpack]"])
    lowered = cede.export(Counts(), (torch.ones(1, 4),), config=config)
    assert lowered.plan.delegations
    case = Case(name="calls", kind=CALLS, calls=(Inputs(args=(torch.ones(1, 4),)),) * calls)
    found = list(_alone(lowered, case, Host.load(config).backends, config.check))
    assert len(found) == len(lowered.plan.delegations)
    assert {part.outcome for part in found} == {outcome}
