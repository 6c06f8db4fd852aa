"""Quantizers that a plan of the float program guides, for one backend and for two."""

from __future__ import annotations

import json
import sys
from typing import TYPE_CHECKING, Any

import pytest
import torch
from click.testing import CliRunner

import cede
from cede.cli import main
from cede.config import LayerConfig
from cede.errors import ConfigError
from cede.lowering.guide import Place
from cede.quant.pt2e.annotate import KEY, Chosen
from cede.quant.pt2e.assign import Assignment
from cede.quant.pt2e.choice import Choice
from cede.reporting.borders import Meeting

if TYPE_CHECKING:
    from pathlib import Path


class Two(torch.nn.Module):
    """Two convolutions with an op between them that no quantizer takes."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.first = torch.nn.Conv2d(3, 8, 3, padding=1)
        self.last = torch.nn.Conv2d(8, 4, 3)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.last(torch.relu(self.first(x))).flatten(1)


CALLS = [
    (torch.randn(2, 3, 8, 8, generator=torch.Generator().manual_seed(seed)),) for seed in range(3)
]
X = CALLS[0][0]


def config(*overrides: str) -> cede.Config:
    return cede.load_config(None, list(overrides))


def rows(report: Any) -> dict[tuple[str, str], Any]:
    return {(row.module, row.op): row for row in report.rows}


@pytest.mark.skipif(sys.platform != "linux", reason="ExecuTorch has the delegate on Linux only")
def test_two_backends_quantize_what_the_plan_gives_them() -> None:
    both = config("backends=[xnnpack,openvino]", "policy.pin=[{module: last, backend: openvino}]")
    program, report = cede.quantize_program(
        Two().eval(), (X,), "auto", calibration=CALLS, config=both
    )
    assert report.quantizer == "xnnpack, openvino"
    found = rows(report)
    assert found["first", "aten.conv2d"].quantizer == "xnnpack"
    assert found["last", "aten.conv2d"].quantizer == "openvino"
    lowered = cede.lower(program, config=both)
    assert [given.backend for given in lowered.plan.delegations][:2] == ["xnnpack", "openvino"]
    [got] = cede.run(lowered.buffer, [X]).outputs
    with torch.no_grad():
        wanted = program.module()(X)
    # a value is rounded again at the border, to the nearest of half as many steps
    assert float((got - wanted).norm() / wanted.norm()) < 0.03
    told = lowered.report()
    [border] = [given for given in told.borders if given.taker.endswith("openvino")]
    assert border.meeting is Meeting.REQUANTIZED
    assert border.given is not None
    assert border.read is not None
    assert (border.given.dtype, border.read.dtype) == ("int8", "uint8")
    assert str(border.given) in told.markdown()
    assert str(border.read) in told.markdown()
    assert json.loads(told.json())["borders"][0]["meeting"]


def test_what_the_plan_leaves_stays_in_float() -> None:
    left = config("backends=[xnnpack]", "policy.exclude=[{module: last}]")
    program, report = cede.quantize_program(
        Two().eval(), (X,), "xnnpack", calibration=CALLS, config=left
    )
    found = rows(report)
    assert found["first", "aten.conv2d"].scheme == "static"
    assert found["", "aten.relu"].scheme == "static"
    note = found["last", "aten.conv2d"].note
    assert note.startswith("the plan leaves it (xnnpack: policy: policy.exclude[0]")
    plan = cede.plan(program, left)
    assert plan.graph is not None
    outside = {op.kind for op in plan.graph.ops if op.id not in plan.delegation_of()}
    assert "aten.convolution" in outside
    assert not any("quantize" in kind for kind in outside)
    _, whole = cede.quantize_program(
        Two().eval(), (X,), "xnnpack", calibration=CALLS, config=left, guided=False
    )
    assert rows(whole)["last", "aten.conv2d"].scheme == "static"


def test_what_is_fused_lies_in_one_delegate() -> None:
    program = torch.export.export(Two().eval(), (X,))
    record = cede.host.Host.load(config()).quantizers["xnnpack"]
    names = [n.name for n in program.graph.nodes if n.op == "call_function"]
    assert names == ["conv2d", "relu", "conv2d_1", "flatten"]

    def annotated(*delegates: str) -> dict[str, Any]:
        places = {
            name: Place(backend="xnnpack", delegates=(given,))
            for name, given in zip(names, delegates, strict=True)
        }
        asked = Assignment((record,), Choice("static", (), ()), places)
        inner = {("xnnpack", "static"): record.make("static", True)}
        chosen = Chosen((record,), inner, asked)
        module = program.module(check_guards=False)
        chosen.annotate(module)
        assert len(chosen.rows) == 4
        given = {n.name: n.meta[KEY] for n in module.graph.nodes if KEY in n.meta}
        return {name: given[name].output_qspec is not None for name in names if name in given}

    assert annotated("d0", "d0", "d0", "d0")["conv2d"] is False  # relu has the result
    assert annotated("d0", "d1", "d1", "d1")["conv2d"] is True


@pytest.mark.parametrize(
    ("quantizer", "overrides", "given", "message"),
    [
        ("xnnpack,openvino", ["backends=[xnnpack,openvino]"], {"guided": False}, "by a plan"),
        ("openvino", ["backends=[xnnpack]"], {}, r"add openvino to backends, or .*guided=false"),
        ("xnnpack,xnnpack", [], {}, "both of backend xnnpack"),
        ("auto", ["backends=[reference]"], {}, r"no backend of \[reference\] has a quantizer"),
        (
            "xnnpack,openvino",
            ["backends=[xnnpack,openvino]", "policy.pin=[{module: last, backend: openvino}]"],
            {"layers": [LayerConfig(select="module:last", mode="dynamic")]},
            r"layers\[0\] asks for 'dynamic' on conv2d_1 .*in module last.*openvino .*has static",
        ),
    ],
)
def test_what_cannot_be_shared_out_is_an_error(
    quantizer: str, overrides: list[str], given: dict[str, Any], message: str
) -> None:
    with pytest.raises(ConfigError, match=message):
        cede.quantize_program(
            Two().eval(), (X,), quantizer, calibration=CALLS, config=config(*overrides), **given
        )


def test_the_command_line_shares_out_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "net.py").write_text(
        "import torch\n\ndef make():\n"
        "    net = torch.nn.Sequential(torch.nn.Linear(8, 8), torch.nn.ReLU())\n"
        "    return net, (torch.randn(2, 8),)\n\n"
        "def calls():\n    return (torch.randn(2, 8) for _ in range(3))\n"
    )
    asked = ["quantize", "net.py:make", "-b", "xnnpack", "-b", "reference", "-f", "json"]
    asked += ["quantize.pt2e=auto", "quantize.calibration=net.py:calls"]
    told = CliRunner().invoke(main, asked)
    assert told.exit_code == 0, told.output
    report = json.loads(told.stdout)
    assert (report["quantizer"], report["guided"], report["calls"]) == ("xnnpack", True, 3)
    assert {op["scheme"] for op in report["ops"]} == {"static"}


@pytest.mark.skipif(sys.platform != "linux", reason="ExecuTorch has the delegate on Linux only")
@pytest.mark.parametrize("left", ["op: aten.convolution", "module: first"])
def test_a_quantized_weight_never_leaves_a_delegate_of_openvino(left: str) -> None:
    whole = config("backends=[openvino]")
    program, _ = cede.quantize_program(
        Two().eval(), (X,), "openvino", calibration=CALLS, config=whole
    )
    lowered, loose = cede.lower(program, config=whole), config("check.atol=0.05")
    assert cede.check(lowered, [(X,)], config=loose).passed
    with pytest.raises(cede.LoweringError) as raised:
        cede.lower(program, config=config("backends=[openvino]", f"policy.exclude=[{{{left}}}]"))
    assert "a quantized weight, from outside of delegate" in str(raised.value)
    assert "quantize.layers" in str(raised.value)
