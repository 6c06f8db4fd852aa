"""What goes into a program that a backend's quantizer annotates: integers, and several."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
import torch
from click.testing import CliRunner
from torch import nn

import cede
from cede.cli import main

if TYPE_CHECKING:
    from pathlib import Path


class Lookup(nn.Module):
    """Ids and their mask to a mean, with positions that are counted from the mask.

    `add` and `mul` take numbers, of integers and of floats.
    """

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.words, self.places = nn.Embedding(16, 32), nn.Embedding(32, 32)
        self.linear = nn.Linear(32, 8)

    def forward(self, ids: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
        places = mask.cumsum(1) * 2 + 1
        states = self.linear(self.words(ids) + self.places(places) * 0.5)
        return (states * mask.unsqueeze(-1)).sum(1) + 1.0


class Picks(nn.Module):
    """Rows of a table by an int64 index that is computed, as attention masks are made."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.linear = nn.Linear(8, 8)

    def forward(self, x: torch.Tensor, first: torch.Tensor) -> torch.Tensor:
        rows = torch.arange(3) + 1
        return self.linear(x[rows[:, None], first[None] + 2]) * 0.5


IDS = torch.randint(0, 16, (2, 6), generator=torch.Generator().manual_seed(0))
MASK = (torch.arange(6) < torch.tensor([[6], [4]])).to(torch.int64)
X = torch.randn(4, 8, 8, generator=torch.Generator().manual_seed(0))


@pytest.mark.parametrize("mode", ["static", "dynamic"])
@pytest.mark.parametrize(("make", "args"), [(Lookup, (IDS, MASK)), (Picks, (X, torch.arange(4)))])
def test_numbers_of_integers_stay_integers(
    make: type[nn.Module], args: tuple[Any, ...], mode: str
) -> None:
    model = make().eval()
    program, report = cede.quantize_program(model, args, "xnnpack", mode, calibration=[args] * 2)
    assert {row.scheme for row in report.rows if row.op == "aten.linear"} == {mode}
    with torch.no_grad():
        wanted, floats = program.module()(*args), model(*args)
    assert 0 < float((wanted - floats).norm() / floats.norm()) < 0.05
    lowered = cede.lower(program, config="xnnpack-fp32")
    [got] = cede.run(lowered.buffer, list(args)).outputs
    assert float((got - wanted).norm() / wanted.norm()) < 1e-2


@pytest.mark.parametrize(("quantizer", "most"), [("xnnpack", 0.02), ("xnnpack_qc4", 0.2)])
def test_each_row_of_a_dynamic_input_has_its_own_scale(quantizer: str, most: float) -> None:
    """As the delegate computes it, the converted model says it: rows differ by 1000."""
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(16, 8), nn.GELU(), nn.Linear(8, 4)).eval()
    x = torch.randn(2, 3, 16) * torch.tensor([0.01, 1.0, 10.0])[:, None]
    program, _ = cede.quantize_program(model, (x,), quantizer, "dynamic", calibration=[(x,)])
    with torch.no_grad():
        wanted, floats = program.module()(x), model(x)
    assert 0 < float((wanted - floats).norm() / floats.norm()) < most
    lowered = cede.lower(program, config="xnnpack-fp32")
    assert not lowered.report().left
    [got] = cede.run(lowered.buffer, [x]).outputs
    torch.testing.assert_close(got, wanted, atol=1e-5, rtol=1e-5)


class Named(nn.Module):
    """A tensor by place, another and a number by keyword."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.linear = nn.Linear(8, 8)

    def forward(self, x: torch.Tensor, *, bias: torch.Tensor, times: float = 1.0) -> torch.Tensor:
        return self.linear(x) * times + bias


def test_keyword_inputs() -> None:
    """Calls of a model like those of `transformers`: positional, by keyword, and both."""
    torch.manual_seed(0)
    x, bias = torch.randn(2, 8), torch.randn(8) * 4
    given = {"bias": bias, "times": 2.0}
    calls = [(x * 3,), {"bias": bias * 2}, cede.Inputs(args=(x,), kwargs=given)]
    model = Named().eval()
    program, rows = cede.quantize_program(
        model, (x,), "xnnpack", kwargs=given, calibration=calls
    )  # fmt: skip
    assert rows.calls == 3
    with torch.no_grad():
        wanted, floats = program.module()(x, **given), model(x, **given)
    assert 0 < float((wanted - floats).norm() / floats.norm()) < 0.05
    lowered = cede.lower(program, config="xnnpack-fp32")
    assert cede.check(lowered, [cede.Inputs(args=(x,), kwargs=given)]).passed
    odd = {"scale: the example's are bias, times": "scale", "input bias is int32": "bias"}
    for told, name in odd.items():
        with pytest.raises(cede.ConfigError, match=f"call 0: .*{told}"):
            cede.quantize_program(
                model, (x,), "xnnpack", kwargs=given, calibration=[{name: bias.int()}]
            )


def test_keyword_inputs_from_a_file_by_the_command_line(tmp_path: Path) -> None:
    (tmp_path / "named.py").write_text(
        "import torch\nfrom tests.e2e.test_pt2e_inputs import Named\n\ndef make():\n"
        "    given = dict(bias=torch.zeros(8), times=2.0)\n"
        "    return Named(), (torch.randn(2, 8),), {'kwargs': given}\n"
    )
    rows = np.random.default_rng(0).standard_normal((3, 2, 8)).astype("float32")
    np.savez(tmp_path / "calls.npz", bias=rows[:, 0], x=rows)
    asked = ["quantize.pt2e=xnnpack", f"quantize.calibration={tmp_path / 'calls.npz'}"]
    done = CliRunner().invoke(main, ["quantize", f"{tmp_path / 'named.py'}:make", *asked])
    assert done.exit_code == 0, done.output
    assert "3 calls" in done.output


def test_a_config_with_numbers_of_its_own_is_not_passed_over() -> None:
    config = cede.load_config(None, ["quantize.pt2e=xnnpack"])
    with pytest.raises(cede.ConfigError, match="section quantize"):
        cede.quantize_program(Picks().eval(), (X, torch.arange(4)), "xnnpack", config=config)


@pytest.mark.skipif(sys.platform != "linux", reason="ExecuTorch has the OpenVINO delegate on Linux")
def test_what_has_no_channels_has_no_scale_a_channel() -> None:
    """nncf takes the bias of a group norm for a weight, and torchao's observers can't read it."""
    torch.manual_seed(0)
    layers = (nn.Conv2d(3, 8, 3), nn.GroupNorm(2, 8), nn.Conv2d(8, 4, 3))
    model, x = nn.Sequential(*layers).eval(), torch.randn(1, 3, 8, 8)
    program, rows = cede.quantize_program(model, (x,), "openvino", calibration=[(x,)])
    assert {row.scheme for row in rows.rows if row.op == "aten.conv2d"} == {"static"}
    lowered = cede.lower(program, config=cede.load_config(None, ["backends=[openvino]"]))
    [got] = cede.run(lowered.buffer, [x]).outputs
    with torch.no_grad():
        wanted, floats = program.module()(x), model(x)
    assert float((got - wanted).norm() / wanted.norm()) < 1e-2
    assert 0 < float((wanted - floats).norm() / floats.norm()) < 0.05
