"""Programs quantized by a backend's own quantizer: right in ExecuTorch's runtime, every op told."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
import torch
from click.testing import CliRunner

import cede
from cede.cli import main
from cede.config import LayerConfig, QuantizeConfig
from cede.errors import ConfigError
from cede.quant.pt2e.calibration import calls

if TYPE_CHECKING:
    from pathlib import Path


class Net(torch.nn.Module):
    """A convolution with its norm, a linear module, and a softmax that no quantizer takes."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.conv = torch.nn.Conv2d(3, 8, 3, padding=1)
        self.norm = torch.nn.BatchNorm2d(8)
        self.linear = torch.nn.Linear(8 * 64, 10)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.linear(torch.relu(self.norm(self.conv(x))).flatten(1)).softmax(-1)


def inputs(seed: int) -> torch.Tensor:
    return torch.randn(2, 3, 8, 8, generator=torch.Generator().manual_seed(seed))


X = inputs(0)
CALLS = [(inputs(seed),) for seed in range(4)]


def off(got: torch.Tensor, wanted: torch.Tensor) -> float:
    got, wanted = got.detach(), wanted.detach()
    return float((got - wanted).norm() / wanted.norm())


def config(backend: str, *overrides: str) -> cede.Config:
    return cede.load_config(None, [f"backends=[{backend}]", *overrides])


def schemes(report: Any) -> dict[str, str]:
    return {row.op: row.scheme for row in report.rows}


@pytest.mark.parametrize(
    ("quantizer", "mode", "per_channel"),
    [
        ("xnnpack", "static", True),
        ("xnnpack", "static", False),
        ("xnnpack", "dynamic", True),
        ("openvino", "static", True),
    ],
)
def test_it_runs_as_the_converted_model_does(quantizer: str, mode: str, per_channel: bool):
    model = Net().eval()
    before = {name: value.clone() for name, value in model.state_dict().items()}
    seen = []
    batch = None if per_channel else ({0: torch.export.Dim("batch", min=1, max=8)},)
    program, report = cede.quantize_program(
        model, (X,), quantizer, mode, per_channel, CALLS, batch,
        progress=lambda done, total: seen.append((done, total)),
    )  # fmt: skip
    assert seen == [(i, 4) for i in (1, 2, 3, 4)]
    assert not report.warnings
    assert schemes(report)["aten.linear"] == mode
    assert schemes(report)["aten.conv2d"] == ("" if mode == "dynamic" else mode)
    assert "annotates no aten.softmax" in next(r.note for r in report.left if "softmax" in r.op)
    weights = f"quantized_decomposed.dequantize_per_{'channel' if per_channel else 'tensor'}"
    assert any(str(node.target).startswith(weights) for node in program.graph.nodes)
    wanted = program.module()(X)
    assert 0 < off(wanted, model(X)) < 0.1
    lowered = cede.lower(program, config=config(quantizer))
    # flattening with a dynamic size reads that size between two delegates
    assert lowered.report().totals.delegates == (1 if batch is None else 2)
    assert off(cede.run(lowered.buffer, [X]).outputs[0], wanted) < 1e-2
    if batch is not None:
        more = torch.cat([X, -X, X])
        assert off(cede.run(lowered.buffer, [more]).outputs[0], program.module()(more)) < 1e-2
    after = model.state_dict()
    assert all(torch.equal(value, after[name]) for name, value in before.items())


def test_selectors_mix_precisions():
    layers = [
        LayerConfig(select="module:linear", mode="dynamic"),
        LayerConfig(select="op:aten.conv2d", mode="none"),
    ]
    program, report = cede.quantize_program(
        Net().eval(), (X,), "xnnpack", calibration=CALLS, layers=layers,
        select=["op:aten.conv2d", "module:linear", "op:aten.relu"],
    )  # fmt: skip
    found = {row.op: (row.scheme, row.note) for row in report.rows}
    assert found["aten.linear"] == ("dynamic", "")
    assert found["aten.conv2d"] == ("", "quantize.layers[1]")
    assert found["aten.relu"] == ("", "it goes with an op that is left in float")
    assert found["aten.flatten"] == ("", "not selected")
    lowered = cede.lower(program, config=config("xnnpack"))
    assert off(cede.run(lowered.buffer, [X]).outputs[0], program.module()(X)) < 1e-2


def test_a_selector_of_nothing_is_an_error():
    with pytest.raises(ConfigError, match=r"select\[0\]: no op of the program is module:head"):
        cede.quantize_program(Net().eval(), (X,), "xnnpack", select=["module:head"])


def test_ops_left_outside_are_told():
    program, _ = cede.quantize_program(Net().eval(), (X,), "xnnpack", calibration=CALLS)
    exclude = "policy.exclude=[{op: aten.linear*}]"
    lowered = cede.lower(program, config=config("xnnpack", exclude))
    text = "\n".join(lowered.warnings)
    assert "dequantize_per_tensor outside of every delegate" in text
    left = {row.op for row in lowered.report().left if "quantize_per_" in row.target}
    assert left
    assert off(cede.run(lowered.buffer, [X]).outputs[0], program.module()(X)) < 1e-2


def test_calibration_data_may_lie_in_a_file(tmp_path: Path):
    torch.save([call[0] for call in CALLS], tmp_path / "calls.pt")
    stacked = np.stack([call[0].numpy() for call in CALLS])
    np.savez(tmp_path / "calls.npz", x=stacked)
    given = [CALLS, lambda: iter(CALLS), tmp_path / "calls.pt", str(tmp_path / "calls.npz")]
    for each in given:
        found = list(calls(each, cede.Inputs(args=(X,)))[0])
        assert len(found) == 4
        pairs = zip(found, CALLS, strict=True)
        assert all(torch.equal(got.args[0], want) for got, (want,) in pairs)


@pytest.mark.parametrize(
    ("calibration", "message"),
    [
        ([], "has no calls to calibrate with"),
        ([(X, X)], "call 0: has 2 inputs, the model takes 1"),
        ([X, X.double()], "call 1: input 0 is float64"),
        ([X / 0], "call 0: input 0 has infinities or NaN"),
        ("gone.pt", r"gone\.pt: no such file"),
        ("gone.csv", r"is a \.pt or \.npz file"),
    ],
)
def test_calibration_data_that_does_not_fit_is_an_error(calibration: Any, message: str):
    with pytest.raises(ConfigError, match=message):
        list(calls(calibration, cede.Inputs(args=(X,)))[0])


def test_a_damaged_file_is_one_clear_error(tmp_path: Path):
    for name in ("calls.pt", "calls.npz"):
        (tmp_path / name).write_bytes(b"PK\x03\x04 no more")
        with pytest.raises(ConfigError, match=f"{name}: can't be read"):
            cede.quantize_program(Net().eval(), (X,), "xnnpack", calibration=tmp_path / name)


@pytest.mark.parametrize(
    ("quantizer", "mode", "message"),
    [
        ("xnnpak", "static", "xnnpack"),
        ("xnnpack", "weight-only", "has no mode 'weight-only'"),
        ("openvino", "dynamic", "has no mode 'dynamic'"),
    ],
)
def test_what_cannot_be_had_is_an_error(quantizer: str, mode: str, message: str):
    with pytest.raises(ConfigError, match=message):
        cede.quantize_program(Net().eval(), (X,), quantizer, mode)
    with pytest.raises(ConfigError, match="training mode"):
        cede.quantize_program(Net().train(), (X,), "xnnpack")


def test_the_two_ways_exclude_each_other():
    both = cede.Config(backends=["xnnpack"], quantize=QuantizeConfig(mode="int8", pt2e="xnnpack"))
    with pytest.raises(ConfigError, match=r"quantize\.mode rewrites .* quantize\.pt2e annotates"):
        cede.export(Net().eval(), (X,), config=both)
    with pytest.raises(ConfigError, match=r"quantize\.calibration: name the quantizer"):
        cede.quantize_model(Net().eval(), QuantizeConfig(calibration="calls.pt"))


MODEL = """
import torch

def make():
    torch.manual_seed(0)
    net = torch.nn.Sequential(torch.nn.Conv2d(3, 8, 3), torch.nn.ReLU(), torch.nn.Flatten(),
                              torch.nn.Linear(8 * 36, 10))
    return net, (torch.randn(2, 3, 8, 8),)

def calls():
    return [torch.randn(2, 3, 8, 8) for _ in range(3)]
"""


def test_the_command_line_does_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "net.py").write_text(MODEL)
    common = ["net.py:make", "quantize.pt2e=xnnpack", "-b", "xnnpack"]
    done = CliRunner().invoke(main, ["export", *common, "-o", "net.pte"])
    assert done.exit_code == 0, done.output
    assert "without calibration data" in done.stderr
    assert "annotated by the xnnpack quantizer" in done.stdout
    assert (tmp_path / "net.pte").stat().st_size > 0
    told = CliRunner().invoke(
        main,
        ["quantize", *common, "quantize.calibration=net.py:calls", "--compare", "-f", "json"],
    )
    assert told.exit_code == 0, told.output
    report = json.loads(told.stdout)
    assert (report["calls"], report["warnings"]) == (3, [])
    assert 20 < report["output_sqnr"] < 80
