"""Group sizes that don't divide, weight-only schemes, and quantized embeddings: told and right."""

from __future__ import annotations

import pytest
import torch
from click.testing import CliRunner
from torch import nn

import cede
from cede.cli import main
from cede.config import LayerConfig, QuantizeConfig
from cede.errors import ConfigError


class Gated(nn.Module):
    """Three linear modules: two read `width` columns, the last one `inner`."""

    def __init__(self, width: int, inner: int) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.left, self.right = nn.Linear(width, inner), nn.Linear(width, inner)
        self.out = nn.Linear(inner, width)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.out(torch.sigmoid(self.left(x)) * self.right(x))


def relative(got: torch.Tensor, wanted: torch.Tensor) -> float:
    return float((got - wanted).detach().norm() / wanted.detach().norm())


@pytest.mark.parametrize(
    ("mode", "width", "inner", "group", "fits"),
    [
        ("8da4w", 96, 256, 64, "96, 32"),
        ("8da4w", 160, 128, 128, "32"),  # 160 itself is more than was asked for
        ("4w", 36, 48, 24, "18, 12, 6, 4, 2"),
    ],
)
def test_no_linear_stays_in_float_unsaid(mode: str, width: int, inner: int, group: int, fits: str):
    model, x = Gated(width, inner).eval(), torch.randn(3, width)
    config = QuantizeConfig(mode=mode, group_size=group)
    with pytest.raises(ConfigError) as told:
        cede.quantize_model(model, config)
    for name in ("left", "right"):
        line = next(line for line in str(told.value).splitlines() if line.startswith(f"  {name} "))
        assert f"[{inner}x{width}]: {width} columns don't divide into groups of {group}" in line
        assert line.endswith(f"group sizes that fit: {fits.removeprefix(f'{width}, ')}")
    assert "  out [" not in str(told.value)

    config.on_mismatch = "skip"
    made, report = cede.quantize_model(model, config)
    assert {row.module for row in report.left} == {"left", "right"}
    assert report.verdict.startswith("1 of 3 modules quantized")
    assert made.left.weight is model.left.weight
    # a rule's own group size is what counts for its modules
    size = int(fits.split(", ")[-1])
    config.layers = [LayerConfig(select="regex:left|right", mode=mode, group_size=size)]
    config.on_mismatch = "error"
    made, report = cede.quantize_model(model, config)
    assert [row.group for row in report.rows] == [size, size, group]
    with torch.no_grad():
        assert relative(made(x), model(x)) < 0.2


@pytest.mark.parametrize(
    ("mode", "group"), [("int8", None), ("4w", 16), ("4w", 0)]
)  # fmt: skip
def test_weight_only_is_never_an_integer_product(mode: str, group: int | None):
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(64, 96), nn.GELU(), nn.Linear(96, 64)).eval()
    x = torch.randn(2, 64)
    made, _ = cede.quantize_model(model, QuantizeConfig(mode=mode, group_size=group))
    lowered = cede.export(made, (x,), config="xnnpack-fp32")
    got = cede.run(lowered.buffer, [x]).outputs[0]
    assert relative(got, made(x)) < 1e-5
    assert relative(got, model(x)) < 0.3
    assert not [row.target for row in lowered.report().left]


def test_a_scheme_that_is_unknown_names_those_that_are(tmp_path):
    (tmp_path / "m.py").write_text(
        "import torch\n\n\ndef make():\n"
        "    return torch.nn.Sequential(torch.nn.Linear(64, 64)), (torch.ones(1, 64),)\n"
    )
    out = tmp_path / "m.pte"
    args = ["export", f"{tmp_path}/m.py:make", "-b", "xnnpack", "quantize.mode=8w", "-o", str(out)]
    result = CliRunner().invoke(main, args)
    assert result.exit_code == 2
    assert "unknown mode '8w'; known: int8, 4w, 8da4w, 8da8w" in result.stderr
    assert not out.exists()


class Lookup(nn.Module):
    """A table and what reads it; the table may be read twice, or be the output's weight too."""

    def __init__(self, columns: int, tied: bool) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.table = nn.Embedding(300, columns)
        self.head = nn.Linear(columns, 300, bias=False)
        if tied:
            self.head.weight = self.table.weight

    def forward(self, ids: torch.Tensor, more: torch.Tensor) -> torch.Tensor:
        return self.head(self.table(ids).sum(1) + self.table(more))


@pytest.mark.parametrize(
    ("embedding", "columns", "tied"), [("4,32", 64, False), ("8,16", 48, False), ("2,0", 64, True)]
)
def test_an_embedding_is_one_op_and_decodes_only_the_rows_it_gives(
    embedding: str, columns: int, tied: bool
):
    model = Lookup(columns, tied).eval()
    args = torch.tensor([[3, 1, 4], [299, 0, 7]]), torch.tensor([5, 9])
    made, report = cede.quantize_model(model, QuantizeConfig(embedding=embedding))
    lowered = cede.export(made, args, config="xnnpack-fp32")
    left = [row.target for row in lowered.report().left]
    assert len([name for name in left if ".embedding_" in name]) == 2
    assert not [name for name in left if "dequantize" in name or name == "aten.embedding.default"]
    got = cede.run(lowered.buffer, list(args)).outputs[0]
    assert relative(got, made(*args)) < 1e-5
    assert ("stored twice" in report.rows[0].note) == tied


@pytest.mark.parametrize(("embedding", "columns"), [("4,32", 48), ("2,6", 48), ("8,64", 96)])
def test_a_table_that_does_not_divide_is_told_before_any_work(embedding: str, columns: int):
    with pytest.raises(ConfigError) as told:
        cede.quantize_model(Lookup(columns, False).eval(), QuantizeConfig(embedding=embedding))
    assert f"table [300x{columns}]" in str(told.value)
