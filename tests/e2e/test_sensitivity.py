"""Which modules cost most error, and a mix of numbers that meets a stated one."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest
import torch
from click.testing import CliRunner

import cede
from cede.cli import main
from cede.config import LayerConfig, QuantizeConfig
from cede.errors import ConfigError

if TYPE_CHECKING:
    from pathlib import Path


class Net(torch.nn.Module):
    """An embedding, modules of very unequal weight in the sum, and a state that counts calls."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.table = torch.nn.Embedding(50, 64)
        self.loud, self.quiet = torch.nn.Linear(64, 64), torch.nn.Linear(64, 64)
        self.head = torch.nn.Linear(64, 50, bias=False)
        self.head.weight = self.table.weight
        self.register_buffer("count", torch.zeros(1))

    def forward(self, ids: torch.Tensor) -> torch.Tensor:
        self.count.add_(1)
        x = self.table(ids)
        return self.head(x + torch.tanh(self.loud(x)) + 0.01 * self.quiet(x)) * self.count


CALLS = [(torch.arange(12).reshape(3, 4),), (torch.arange(50).flip(0).reshape(5, 10),)]


def outputs(model: torch.nn.Module) -> torch.Tensor:
    with torch.no_grad():
        return torch.cat([model(*call).flatten() for call in CALLS]).double()


def off(model: torch.nn.Module, config: QuantizeConfig) -> float:
    """The relative error, measured apart from the code under test."""
    # the copy shares the state, which counts the calls: each starts at zero
    found = []
    for one in (model, cede.quantize_model(model, config)[0]):
        model.count.zero_()
        found.append(outputs(one))
    model.count.zero_()
    return float((found[1] - found[0]).norm() / found[0].norm())


def test_each_module_is_ranked_by_its_error_alone():
    model = Net().train()
    before = {name: value.clone() for name, value in model.state_dict().items()}
    config = QuantizeConfig(mode="8da4w", embedding="2,32")
    runs = []
    model.register_forward_hook(lambda *_: runs.append(1))
    rows = cede.rank_layers(model, CALLS, config)
    assert len(runs) == len(CALLS) * (1 + 4)  # linear in the modules
    assert model.training
    assert all(torch.equal(value, before[name]) for name, value in model.state_dict().items())
    model._forward_hooks.clear()
    errors = [row.error for row in rows]
    assert errors == sorted(errors, reverse=True)
    assert [row.module for row in rows[:1]] == ["table"]  # two bits
    assert [row.module for row in rows[-1:]] == ["quiet"]
    assert sum(row.share for row in rows) == pytest.approx(1)
    for row in rows:
        only = QuantizeConfig(
            layers=[LayerConfig(select=f"module:{row.module}", mode=row.scheme,
                                group_size=None if "," in row.scheme else 32)]
        )  # fmt: skip
        assert row.error == pytest.approx(off(model.eval(), only), rel=1e-6)
        assert row.sqnr == pytest.approx(-20 * torch.tensor(row.error).log10().item(), rel=1e-4)
    assert rows[-1].saved == 64 * 64 * 4 - (64 * 64 // 2 + 64 * 2 * 2)


@pytest.mark.parametrize("error", [0.3, 0.1, 0.02])
def test_a_suggestion_measures_within_the_error(error: float):
    model = Net().eval()
    made = cede.suggest_quantization(model, CALLS, error)
    assert made.met
    assert off(model, made.config) == pytest.approx(made.error, rel=1e-6)
    assert made.error <= error
    uniform = {
        mode: (off(model, QuantizeConfig(mode=mode, embedding=table)), size)
        for mode, table, size in (
            ("8da4w", "2,32", 2 * (64 * 32 + 64 * 4) + 50 * 64 // 4 + 50 * 8 + 50 * 32 + 50 * 4),
            ("8da8w", "8,0", 2 * (64 * 64 + 64 * 4) + 2 * (50 * 64 + 50 * 4)),
        )
    }
    within = [size for found, size in uniform.values() if found <= error]
    assert made.bytes_after <= min(within, default=made.bytes_before)
    assert made.bytes_before == 2 * 64 * 64 * 4 + 50 * 64 * 4  # the table is shared


def test_the_bytes_of_a_suggestion_are_those_of_the_quantized_model():
    torch.manual_seed(1)
    layers = [torch.nn.Linear(64, 64) for _ in range(3)]
    model = torch.nn.Sequential(*layers).eval()
    x = torch.randn(16, 64)
    made = cede.suggest_quantization(model, [(x,)], 0.05, ["int8", "4w"])
    _, report = cede.quantize_model(model, made.config)
    assert made.bytes_after == sum(row.bytes_after for row in report.rows)
    # The best of all mixes, by trying every one.
    modes = [("int8", None), ("4w", 32), ("none", None)]
    best = made.bytes_before
    with torch.no_grad():
        wanted = model(x)
        for number in range(3**3):
            picks = [modes[number // 3**i % 3] for i in range(3)]
            rules = [
                LayerConfig(select=f"module:{i}", mode=mode, group_size=group)
                for i, (mode, group) in enumerate(picks)
            ]
            quantized, rows = cede.quantize_model(model, QuantizeConfig(layers=rules))
            size = sum(row.bytes_after for row in rows.rows)
            if size < best and (quantized(x) - wanted).norm() / wanted.norm() <= 0.05:
                best = size
    assert made.bytes_after <= 1.1 * best


def test_an_error_that_can_not_be_met_is_told():
    made = cede.suggest_quantization(Net().eval(), CALLS, 1e-7)
    assert not made.met
    assert made.rules == ()
    assert "an error of 1e-07 (140.0 dB) can't be met" in made.warnings[0]
    assert {row.note for row in made.left} == {"every candidate costs too much"}


def test_modules_named_none_are_left_and_misfits_are_told():
    torch.manual_seed(0)
    model = torch.nn.Sequential(torch.nn.Linear(48, 64), torch.nn.Linear(64, 64)).eval()
    leave = QuantizeConfig(layers=[LayerConfig(select="module:1")])
    calls = [(torch.randn(8, 48),)]
    made = cede.suggest_quantization(model, calls, 0.5, ["8da4w:32"], leave)
    assert [row.note for row in made.rows] == [
        "left: 48 columns don't divide into groups of 32", "quantize.layers[0]",
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("error", "candidates", "config", "message"),
    [
        (0.0, ["int8"], None, "give a positive number"),
        (0.1, [], None, "no candidates"),
        (0.1, ["5w"], None, "unknown mode '5w'"),
        (0.1, ["3,32"], None, "bits are 2, 4 or 8"),
        (0.1, ["8da4w:48"], None, "no multiple of 32"),
        (0.1, ["int8"], QuantizeConfig(mode="4w"), "takes its modes from candidates"),
    ],
)
def test_what_can_not_be_suggested_is_one_clear_error(error, candidates, config, message: str):
    with pytest.raises(ConfigError) as told:
        cede.suggest_quantization(Net().eval(), CALLS, error, candidates, config)
    assert message in str(told.value)


def test_errors_that_can_not_be_measured_are_told():
    class Nothing(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.linear = torch.nn.Linear(64, 64)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return self.linear(x) * 0

    calls = [(torch.randn(1, 64),)]
    for given, message in ((calls, "64 float values of norm 0"), ([], "there is no call")):
        with pytest.raises(ConfigError) as told:
            cede.rank_layers(Nothing().eval(), given, "int8")
        assert message in str(told.value)


@pytest.fixture
def source(tmp_path: Path) -> str:
    (tmp_path / "models.py").write_text(
        "import torch\n\n\ndef make():\n    torch.manual_seed(0)\n"
        "    first, second = torch.nn.Linear(64, 96), torch.nn.Linear(96, 8)\n"
        "    return torch.nn.Sequential(first, torch.nn.ReLU(), second), (torch.randn(2, 64),)\n"
        "\n\ndef some():\n    return [torch.randn(4, 64) for _ in range(3)]\n"
    )
    return str(tmp_path / "models.py")


def test_the_command_ranks_and_suggests_what_can_be_pasted(source: str, tmp_path: Path):
    def run(*args: str, code: int = 0) -> str:
        result = CliRunner().invoke(main, ["quantize", f"{source}:make", *args, "-q"])
        assert result.exit_code == code, result.output
        return result.output

    some = ("--calls", f"{source}:some")
    data = json.loads(run("quantize.mode=8da4w", "--rank", "-f", "json", *some))
    assert {row["module"] for row in data["ranking"]} == {"0", "2"}
    assert "each module quantized alone" in run("quantize.mode=8da4w", "--rank", "--compare")
    text = run("--suggest", "20dB", *some)
    rules = text[text.index("quantize:") : text.index("Suggestion")]
    (tmp_path / "c.yaml").write_text(rules)
    config = cede.load_config(str(tmp_path / "c.yaml"))
    found = json.loads(run("--suggest", "10%", *some, "-f", "json"))
    assert [rule["mode"] for rule in found["layers"]] == [r.mode for r in config.quantize.layers]
    assert "2 of 2 modules quantized" in run("-c", str(tmp_path / "c.yaml"))
    assert "can't be met" in run("--suggest", "1e-9", "--strict", code=4)
    assert "is no error, such as" in run("--suggest", "lots", code=2)
    assert "leave --compare and --rank out" in run("--suggest", "0.1", "--rank", code=2)
    assert "--candidate is for --suggest" in run(
        "quantize.mode=int8", "--candidate", "int8", code=2
    )
