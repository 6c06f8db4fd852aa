"""Models quantized in their source: right in ExecuTorch's runtime, and every module told of."""

from __future__ import annotations

import json
import math
from typing import Any

import pytest
import torch
from click.testing import CliRunner
from torchao.quantization import IntxWeightOnlyConfig, PerAxis, PerGroup, quantize_

import cede
from cede.cli import main
from cede.config import LayerConfig, QuantizeConfig
from cede.errors import ConfigError
from cede.quant.source import compared


class Tower(torch.nn.Module):
    """An embedding, two linear modules, and an output that shares the embedding's weight."""

    def __init__(self, inner: int = 96) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.table = torch.nn.Embedding(100, 64)
        self.up = torch.nn.Linear(64, inner)
        self.down = torch.nn.Linear(inner, 64, bias=False)
        self.head = torch.nn.Linear(64, 100, bias=False)
        self.head.weight = self.table.weight

    def forward(self, ids: torch.Tensor) -> torch.Tensor:
        return self.head(self.down(torch.relu(self.up(self.table(ids)))))


IDS = torch.arange(12).reshape(3, 4) * 7


def off(got: torch.Tensor, wanted: torch.Tensor) -> float:
    got, wanted = got.detach(), wanted.detach()
    return float((got - wanted).norm() / wanted.norm())


@pytest.mark.parametrize(
    ("mode", "embedding", "most"),
    [("int8", "8,0", 1e-5), ("4w", "4,32", 1e-5), ("8da4w", "4,32", 1e-5), ("8da8w", "2,16", 1e-5)],
)
def test_every_mode_runs_as_the_quantized_model_does(mode: str, embedding: str, most: float):
    config = QuantizeConfig(mode=mode, embedding=embedding)
    model, report = cede.quantize_model(Tower().eval(), config)
    lowered = cede.export(model, (IDS,), config="xnnpack-fp32")
    got = cede.run(lowered.buffer, [IDS]).outputs[0]
    assert off(got, model(IDS)) < most
    assert off(model(IDS), Tower()(IDS)) < 0.6  # two bits are few
    left = {
        row.target.partition(".")[0] + "." + row.target.split(".")[1]
        for row in lowered.report().left
    }
    assert all(name.startswith("quantized_decomposed.embedding") for name in left)
    assert lowered.report().totals.delegates == 1
    assert [row.scheme for row in report.rows] == [embedding, mode, mode, mode]


@pytest.mark.parametrize(("bits", "group"), [(8, 0), (4, 0), (4, 32), (4, 16)])
def test_weight_only_is_exact_to_torchao_whatever_the_input(bits: int, group: int):
    torch.manual_seed(1)
    linear = torch.nn.Linear(64, 24).eval()
    mode = "int8" if bits == 8 else "4w"
    config = QuantizeConfig(mode=mode, group_size=None if bits == 8 else group)
    model, _ = cede.quantize_model(torch.nn.Sequential(linear), config)
    theirs = torch.nn.Sequential(torch.nn.Linear(64, 24))
    theirs.load_state_dict({f"0.{name}": value for name, value in linear.state_dict().items()})
    granularity = PerGroup(group) if group else PerAxis(0)
    quantize_(theirs, IntxWeightOnlyConfig(getattr(torch, f"int{bits}"), granularity))
    rows = torch.export.Dim("rows", min=1, max=64)
    lowered = cede.export(
        model, (torch.randn(8, 64),), config="xnnpack-fp32", dynamic_shapes=({0: rows},)
    )
    assert lowered.report().totals.delegates == 1
    # cutting a dynamic input into groups is beyond the delegate, and stands before it
    assert {row.target for row in lowered.report().left} <= {"aten.slice_copy.Tensor"}
    for x in (torch.randn(5, 64), torch.zeros(1, 64), 1e4 * torch.randn(64, 64)):
        got = cede.run(lowered.buffer, [x]).outputs[0]
        assert off(got, theirs(x)) < 1e-6


def test_the_program_is_little_larger_than_the_weights():
    torch.manual_seed(0)
    model, report = cede.quantize_model(
        torch.nn.Sequential(torch.nn.Linear(1024, 512)), QuantizeConfig(mode="4w", group_size=128)
    )
    lowered = cede.export(model.eval(), (torch.randn(1, 1024),), config="xnnpack-fp32")
    held = report.rows[0].bytes_after
    assert held == 512 * 1024 // 2 + 512 * 8 * 4
    assert len(lowered.buffer) <= 1.05 * (held + 512 * 4)


def test_embeddings_are_those_of_torchao():
    table = torch.nn.Embedding(40, 64)
    model, _ = cede.quantize_model(torch.nn.Sequential(table), QuantizeConfig(embedding="4,16"))
    theirs = torch.nn.Sequential(torch.nn.Embedding(40, 64))
    theirs.load_state_dict({"0.weight": table.weight})
    config = IntxWeightOnlyConfig(torch.int4, PerGroup(16))
    quantize_(theirs, config, lambda module, _: isinstance(module, torch.nn.Embedding))
    ids = torch.arange(40)
    assert torch.equal(model(ids), theirs(ids))
    lowered = cede.export(model, (ids,), config="xnnpack-fp32")
    assert torch.equal(cede.run(lowered.buffer, [ids]).outputs[0], theirs(ids))


def test_the_given_model_stays_and_what_is_left_shares_its_weights():
    model = Tower().eval()
    before = {name: value.clone() for name, value in model.state_dict().items()}
    config = QuantizeConfig(mode="int8", layers=[LayerConfig(select="module:up")])
    made, report = cede.quantize_model(model, config)
    assert all(torch.equal(value, before[name]) for name, value in model.state_dict().items())
    assert isinstance(model.down, torch.nn.Linear)
    assert made.up.weight is model.up.weight
    assert {row.module: row.note for row in report.left} == {
        "table": "no mode for it; untied from head, stored twice",
        "up": "quantize.layers[0]",
    }
    table, inner = 100 * 64, 96 * 64
    assert report.bytes_before == 4 * table + 2 * 4 * inner  # the head has the table's weight
    assert report.bytes_after == 4 * table + (table + 400) + 4 * inner + (inner + 256)


def test_linear_modules_that_share_a_weight_go_on_sharing_it():
    class Twice(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.one = torch.nn.Linear(64, 64)
            self.two = torch.nn.Linear(64, 64)
            self.two.weight = self.one.weight

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return self.two(self.one(x))

    torch.manual_seed(0)
    model = Twice().eval()
    made, report = cede.quantize_model(model, QuantizeConfig(mode="int8"))
    assert made.one.data0 is made.two.data0
    assert made.one.bias is not made.two.bias
    assert report.rows[0].note == "tied with two"
    assert (report.bytes_before, report.bytes_after) == (64 * 64 * 4, 64 * 64 + 64 * 4)
    x = torch.randn(2, 64)
    lowered = cede.export(made, (x,), config="xnnpack-fp32")
    assert off(cede.run(lowered.buffer, [x]).outputs[0], made(x)) < 1e-5
    assert off(made(x), model(x)) < 0.02


def test_groups_that_do_not_divide_name_every_module_and_what_fits():
    with pytest.raises(ConfigError) as told:
        cede.quantize_model(Tower(inner=80), QuantizeConfig(mode="8da4w", group_size=64))
    text = str(told.value)
    assert "down [64x80]: 80 columns don't divide into groups of 64" in text
    assert "group sizes that fit: none" in text  # blocks of the activations' kernels are 32 long
    assert "up [" not in text
    assert "on_mismatch" in text


@pytest.mark.parametrize(
    ("how", "mode", "group", "note"),
    [
        ("skip", "8da4w", 32, "left: 80 columns don't divide into groups of 32"),
        ("pad", "8da4w", 32, "padded by 16 columns: 80 columns don't divide into groups of 32"),
        ("pad", "4w", 32, "padded by 16 columns: 80 columns don't divide into groups of 32"),
        ("smaller", "4w", 32, "group 20: 80 columns don't divide into groups of 32"),
        ("skip", "8da4w", 0, "left: groups are multiples of 32, and a row has 80 columns"),
        (
            "pad",
            "8da4w",
            0,
            "padded by 16 columns: groups are multiples of 32, and a row has 80 col",
        ),
    ],
)
def test_mismatches_are_skipped_padded_or_made_smaller(how: str, mode: str, group: int, note: str):
    config = QuantizeConfig(mode=mode, group_size=group, on_mismatch=how)
    model, report = cede.quantize_model(Tower(inner=80).eval(), config)
    assert {row.module: row.note for row in report.rows}["down"].startswith(note)
    lowered = cede.export(model, (IDS,), config="xnnpack-fp32")
    got = cede.run(lowered.buffer, [IDS]).outputs[0]
    assert off(got, model(IDS)) < 1e-2
    assert off(model(IDS), Tower(inner=80)(IDS)) < 0.2


@pytest.mark.parametrize(
    ("config", "message"),
    [
        (QuantizeConfig(mode="8da5w"), "unknown mode '8da5w'; known: int8, 4w, 8da4w, 8da8w"),
        (QuantizeConfig(mode="int8", group_size=32), "int8 has one scale a row and no groups"),
        (QuantizeConfig(mode="8da4w", group_size=48), "group_size 48 is no multiple of 32"),
        (QuantizeConfig(mode="torchao:fpa4w"), "macOS only; on the CPU take 8da4w"),
        (QuantizeConfig(mode="torchao:8da9w"), "9 bits; give 1 to 8"),
        (QuantizeConfig(embedding="3,32"), "bits are 2, 4 or 8"),
        (QuantizeConfig(embedding="4"), "is no BITS,GROUP"),
        (QuantizeConfig(embedding="torchao:4,32"), "here 4,32 serves"),
        (QuantizeConfig(mode="4w", layers=[LayerConfig(select="module:nope")]), "is module:nope"),
    ],
)
def test_what_can_not_be_had_is_told_before_any_work(config: QuantizeConfig, message: str):
    with pytest.raises(ConfigError) as told:
        cede.quantize_model(Tower(), config)
    assert message in str(told.value)


def test_rules_choose_by_module_and_operator():
    config = QuantizeConfig(
        mode="8da4w",
        embedding="8,0",
        layers=[
            LayerConfig(select="op:aten.linear,regex:^(head|down)$", mode="int8"),
            LayerConfig(select="module:head", mode="none"),
            LayerConfig(select="op:aten.embedding", mode="4,16"),
        ],
    )
    _, report = cede.quantize_model(Tower(), config)
    assert {row.module: row.scheme for row in report.rows} == {
        "table": "4,16", "up": "8da4w", "down": "int8", "head": "",
    }  # fmt: skip


@pytest.fixture
def source(tmp_path):
    path = tmp_path / "models.py"
    path.write_text(
        "import torch\n\n\ndef make():\n    torch.manual_seed(0)\n"
        "    first, second = torch.nn.Linear(64, 32), torch.nn.Linear(32, 4)\n"
        "    return torch.nn.Sequential(first, torch.nn.ReLU(), second), (torch.randn(2, 64),)\n"
    )
    return path


def test_the_command_compares_with_float(source, tmp_path):
    out = tmp_path / "rows.json"
    args = ["quantize", f"{source}:make", "quantize.mode=8da8w", "--compare", "-q"]
    result = CliRunner().invoke(main, [*args, "-f", "json", "-o", str(out)])
    assert result.exit_code == 0, result.output
    data = json.loads(out.read_text())
    assert [row["module"] for row in data["modules"]] == ["0", "2"]
    assert all(35 < row["sqnr"] < 60 for row in data["modules"])
    assert all(25 < row["output_sqnr"] < 60 for row in data["modules"])
    assert data["output_sqnr"] == data["modules"][-1]["output_sqnr"]
    shown = CliRunner().invoke(main, args)
    assert "2 of 2 modules quantized" in shown.stdout
    assert "output" in shown.stdout


def test_a_mode_or_a_whole_config_stands_for_the_section():
    x = torch.randn(2, 64)
    model = torch.nn.Sequential(torch.nn.Linear(64, 32)).eval()
    whole = cede.load_config(None, ["quantize.mode=8da4w"])
    made = [
        cede.quantize_model(model, given)[0](x)
        for given in (QuantizeConfig(mode="8da4w"), "8da4w", whole)
    ]
    assert torch.equal(made[0], made[1])
    assert torch.equal(made[0], made[2])
    for wrong, message in (("8da5w", "unknown mode '8da5w'"), (None, "NoneType says no numbers")):
        with pytest.raises(ConfigError) as told:
            cede.quantize_model(model, wrong)
        assert message in str(told.value)


def test_a_module_in_two_places_is_quantized_in_both():
    class Twice(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.one = torch.nn.Linear(64, 64)
            self.two = torch.nn.ModuleList([self.one])

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return self.two[0](self.one(x))

    made, report = cede.quantize_model(Twice().eval(), "int8")
    assert made.one is made.two[0]
    assert not isinstance(made.one, torch.nn.Linear)
    assert [row.module for row in report.rows] == ["one"]


def test_comparing_leaves_the_state_of_a_model():
    class Counting(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            torch.manual_seed(0)
            self.linear = torch.nn.Linear(64, 64)
            self.register_buffer("count", torch.zeros(1))

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            self.count.add_(1)
            return self.linear(x) * self.count

    model, x = Counting().eval(), torch.randn(4, 64)
    made, report = cede.quantize_model(model, "int8")
    found = compared(report, model, made, [(x,), (x,)], {})
    assert model.count.item() == 0
    assert found.output_sqnr == pytest.approx(found.rows[0].output_sqnr, abs=1)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        ("torch.nn.Sequential(torch.nn.ReLU()), (torch.ones(1, 64),)", "no module has a weight"),
        (
            "torch.nn.Sequential(torch.nn.Conv1d(64, 4, 1)), (torch.ones(1, 64, 8),)",
            "every module with a weight was left",
        ),
    ],
)
def test_nothing_to_quantize_is_a_warning_and_an_error_with_strict(
    make: str, message: str, tmp_path
):
    (tmp_path / "models.py").write_text(f"import torch\n\n\ndef make():\n    return {make}\n")
    args = ["quantize", f"{tmp_path}/models.py:make", "quantize.mode=int8"]
    result = CliRunner().invoke(main, args)
    assert result.exit_code == 0
    assert f"warning: nothing was quantized: {message}" in result.stderr
    result = CliRunner().invoke(main, [*args, "--strict", "-q"])
    assert result.exit_code == 4
    assert message in result.stderr


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float64])
def test_a_module_that_is_not_float32_is_left_and_told(dtype: torch.dtype):
    model = torch.nn.Sequential(torch.nn.Linear(64, 64).to(dtype)).eval()
    x = torch.randn(2, 64, dtype=dtype)
    quantized, rows = cede.quantize_model(model, QuantizeConfig(mode="8da4w"))
    assert f"left: its weight is {str(dtype).removeprefix('torch.')}, not float32" in rows.text()
    assert torch.equal(quantized(x), model(x))


def _hooked() -> torch.nn.Module:
    linear = torch.nn.Linear(64, 8)
    linear.register_forward_hook(lambda module, given, result: result * 2)
    return linear


def _broken() -> torch.nn.Module:
    linear = torch.nn.Linear(64, 8)
    with torch.no_grad():
        linear.weight[0, 0] = float("nan")
    return linear


@pytest.mark.parametrize(
    ("make", "note"),
    [
        (_hooked, "left: it has hooks, which a new module would not have"),
        (_broken, "left: its weight has NaN or infinities"),
        (lambda: torch.nn.Embedding(8, 64, max_norm=1.0), "left: it renormalizes its weight"),
        (
            lambda: torch.nn.utils.parametrizations.weight_norm(torch.nn.Linear(64, 8)),
            "ParametrizedLinear is no nn.Linear or nn.Embedding",
        ),
    ],
)
def test_what_a_new_module_could_not_stand_for_is_left_and_told(make, note: str):
    model = torch.nn.Sequential(make()).eval()
    config = QuantizeConfig(mode="int8", embedding="8,0")
    made, report = cede.quantize_model(model, config)
    assert report.rows[0].note.startswith(note)
    assert type(made[0]) is type(model[0])


def test_weights_without_values_are_an_error():
    model = torch.nn.Sequential(torch.nn.Linear(64, 8, device="meta"))
    with pytest.raises(ConfigError, match="0: its weight is on the meta device"):
        cede.quantize_model(model, "int8")


def test_the_command_needs_something_to_do_and_tells_what_is_left(source):
    assert CliRunner().invoke(main, ["quantize", f"{source}:make"]).exit_code == 2
    args = ["quantize", f"{source}:make", "quantize.embedding=4,32", "--strict", "-q"]
    result = CliRunner().invoke(main, args)
    assert result.exit_code == 4
    assert "0: no mode for it" in result.stderr


def test_export_quantizes_and_reports(source, tmp_path):
    out = tmp_path / "model.pte"
    args = ["export", f"{source}:make", "-b", "xnnpack", "quantize.mode=int8", "--check"]
    result = CliRunner().invoke(main, [*args, "-o", str(out)])
    assert result.exit_code == 0, result.output
    assert "2 of 2 modules quantized" in result.stdout
    program = torch.export.export(torch.nn.Linear(4, 4), (torch.ones(1, 4),))
    torch.export.save(program, tmp_path / "a.pt2")
    args = ["export", str(tmp_path / "a.pt2"), "quantize.mode=int8", "-o", str(out)]
    result = CliRunner().invoke(main, args)
    assert result.exit_code == 2
    assert "can't be quantized in its source" in result.stderr


def test_a_weight_without_noise_has_no_number_for_it():
    model = torch.nn.Sequential(torch.nn.Linear(32, 4, bias=False))
    with torch.no_grad():
        model[0].weight.fill_(1.0)
    _, report = cede.quantize_model(model, QuantizeConfig(mode="int8"))
    assert report.rows[0].sqnr is not None
    assert report.rows[0].sqnr > 40 or math.isinf(report.rows[0].sqnr)
    assert "Infinity" not in report.json()


@pytest.mark.parametrize(("mode", "group"), [("8da4w", 32), ("8da4w", 0), ("4w", 16)])
def test_fitted_scales_serve_the_inputs_of_the_calls(mode: str, group: int):
    torch.manual_seed(0)
    model = torch.nn.Sequential(torch.nn.Linear(64, 48)).eval()
    spread = torch.logspace(-2, 0.5, 64)[torch.randperm(64)]
    calls = [(torch.randn(64, 64) * spread,) for _ in range(2)]
    x = torch.randn(512, 64) * spread

    def off(scales: str, calls: Any = None) -> float:
        config = QuantizeConfig(mode=mode, group_size=group, scales=scales)
        made, rows = cede.quantize_model(model, config, calls)
        assert rows.rows[0].sqnr is not None
        assert ("fitted" in rows.rows[0].note) == (scales == "fitted")
        with torch.no_grad():
            wanted, eager = model(x), made(x)
        if calls:
            lowered = cede.export(made, (x,), config="xnnpack-fp32")
            assert not any("quantize" in row.target for row in lowered.report().left)
            [got] = cede.run(lowered.buffer, [x]).outputs
            assert float((got - eager).norm() / eager.norm()) < 1e-5
        return float((eager - wanted).norm() / wanted.norm())

    assert off("fitted", calls) < off("fitted") < off("absmax")


def test_fitted_scales_need_something_in_four_bits():
    with pytest.raises(ConfigError, match=r"quantize.scales: fitted is for .* 4 bits"):
        cede.quantize_model(Tower(), QuantizeConfig(mode="int8", scales="fitted"))
    with pytest.raises(ConfigError, match=r"quantize.scales: is 'fited'.*fitted"):
        cede.load_config(None, ["quantize.scales=fited"])


def test_a_module_that_no_call_reaches_weighs_all_inputs_alike():
    class Half(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.used, self.spare = torch.nn.Linear(32, 32), torch.nn.Linear(32, 32)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return self.used(input=x)

    config = QuantizeConfig(mode="8da4w", scales="fitted", calibration="calls.pt")
    _, rows = cede.quantize_model(Half().eval(), config, None, {"x": torch.randn(2, 32)})
    assert [row.note for row in rows.rows] == ["scales fitted, all inputs weighed alike"] * 2
    _, rows = cede.quantize_model(Half().eval(), config, [()], {"x": torch.randn(2, 32)})
    assert rows.rows[0].note == "scales fitted to 1 call"
    assert rows.rows[1].note.endswith("weighed alike: no call reaches it")
