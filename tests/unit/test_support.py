"""The support matrix: its rows, its cells as a value, its forms, and what counts as a change."""

from __future__ import annotations

import csv
import io
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest
import torch

from cede.config import CheckConfig
from cede.errors import ConfigError
from cede.support.compare import changes
from cede.support.joint import group, samples
from cede.support.matrix import matching
from cede.support.probe import _compare
from cede.support.records import Answer, Cell, Outcome, Support, read_support, write_support
from cede.support.show import changes_text, shown

if TYPE_CHECKING:
    from pathlib import Path


def core_ops() -> set[str]:
    """All of them: `dir(torch.ops.aten)` has only those that somebody used before."""
    found = set()
    for full in torch._C._dispatch_get_all_op_names():
        space, _, rest = full.partition("::")
        name, _, overload = rest.partition(".")
        packet = getattr(torch.ops.aten, name, None) if space == "aten" else None
        op = getattr(packet, overload or "default", None)
        if op is not None and torch.Tag.core in op.tags:
            found.add(str(op))
    return found


def test_every_core_op_has_a_row() -> None:
    core = core_ops()
    assert len(core) > 150
    assert {name for name in samples() if name.startswith("aten.")} == core


def test_a_row_is_probed_or_says_why_not() -> None:
    for name, sample in samples().items():
        assert (sample.function is None) == bool(sample.why), name
        assert len(sample.why) != 1


@pytest.mark.parametrize("dtype", ["float32", "float16", "bfloat16", "int8"])
def test_the_same_data_each_time_and_of_the_probed_dtype(dtype: str) -> None:
    for sample in samples().values():
        first, second = (sample.inputs(getattr(torch, dtype)) for _ in range(2))
        torch.testing.assert_close(first, second, rtol=0, atol=0, equal_nan=True)
        kinds = {str(value.dtype).removeprefix("torch.") for value in first}
        assert kinds <= {dtype, "int64", "bool"}


def test_float32_runs_in_eager_but_for_bits() -> None:
    names = tuple(name for name, sample in samples().items() if not sample.why)
    rejected = set()
    for name in names:
        sample = samples()[name]
        try:
            with torch.no_grad():
                made = sample.module(torch.float32)(*sample.inputs(torch.float32))
        except (RuntimeError, NotImplementedError):
            rejected.add(name.split(".")[1])
        else:
            assert made, name
            flat = [value.double() for value in made if not value.is_complex()]
            special = name in ("aten.isinf.default", "aten.isnan.default")
            assert special or all(value.isfinite().all() for value in flat), name
    assert rejected == {"bitwise_and", "bitwise_or", "bitwise_xor", "bitwise_not"}


def test_a_group_knows_which_inputs_stay_symbolic() -> None:
    names = ("aten.add.Tensor", "aten.index_select.default", "aten.as_strided.default")
    made = group(names, "float32", True)
    assert made.names == names
    assert made.symbolic[0] == (True, True)
    inputs = made.inputs(torch.float32, 8)
    assert [tuple(value.shape) for value in inputs[0]] == [(8, 8), (8, 8)]


def test_what_eager_rejects_is_left_out_with_its_reason() -> None:
    made = group(("aten.add.Tensor", "aten.bitwise_not.default"), "float32", False)
    assert made.names == ("aten.add.Tensor",)
    assert "not implemented for 'Float'" in made.rejected["aten.bitwise_not.default"]


@pytest.mark.parametrize(
    ("pattern", "names"),
    [
        ("add.Tensor", ["aten.add.Tensor"]),
        ("add", ["aten.add.Scalar", "aten.add.Tensor"]),
        ("aten.isn*", ["aten.isnan.default"]),
        ("conv2d", ["conv2d"]),
        ("conv2d*", ["conv2d", "conv2d depthwise"]),
    ],
)
def test_patterns(pattern: str, names: list[str]) -> None:
    assert sorted(matching([pattern])) == names


def test_a_pattern_that_matches_nothing() -> None:
    with pytest.raises(ConfigError, match="no op matches 'ad'; did you mean add"):
        matching(["mul", "ad"])


def cell(op: str = "aten.add.Tensor", **more: object) -> Cell:
    given = {"backend": "npu", "dtype": "float32", "shapes": "static", "answer": Answer.CLAIMED}
    return Cell(**{"op": op, **given, **more})  # type: ignore[arg-type]


MADE = Support(
    versions={"torch": "2"},
    levels={"npu": "run"},
    unavailable={"gpu": "can't claim here: no SDK"},
    cells=(
        cell(outcome=Outcome.RIGHT, detail="0"),
        cell("aten.mul.Tensor", outcome=Outcome.WRONG, detail="3 of 4 elements differ"),
        cell("aten.sin.default", answer=Answer.REFUSED, code="dtype", reason="no | float32"),
        cell("lstm", answer=Answer.PARTLY, code="unknown-op", reason="no rule"),
        cell("aten.rand.default", answer=Answer.NOT_PROBED, reason="it is random"),
    ),
)


def test_json_comes_back(tmp_path: Path) -> None:
    file = tmp_path / "ops.json"
    file.write_text(write_support(MADE))
    assert read_support(file) == MADE
    assert len(file.read_text().splitlines()) == 14 + len(MADE.cells)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (None, "can't be read: No such file"),
        ("{", "is no JSON"),
        ('{"schema": 7}', "is no support matrix; cede ops -f json"),
        ('{"schema": 1, "cells": [{"op": "a"}]}', "is a damaged support matrix"),
    ],
)
def test_a_file_that_is_no_matrix(text: str | None, message: str, tmp_path: Path) -> None:
    file = tmp_path / "ops.json"
    if text is not None:
        file.write_text(text)
    with pytest.raises(ConfigError, match=message):
        read_support(file)


def test_text_has_totals_ops_faults_and_reasons() -> None:
    text = shown(MADE, "text")
    for title in ("Probed less far", "Totals", "Ops", "Claimed and not right", "Reasons"):
        assert f"\n{title}" in f"\n{text}"
    for word in ("no: dtype", "wrong", "partly", "not probed", "it is random", "no SDK"):
        assert word in text


def test_markdown_keeps_its_columns() -> None:
    text = shown(MADE, "markdown")
    assert "no \\| float32" in text
    rows = text.split("## Ops")[1].split("##")[0].strip().splitlines()
    assert len(rows) == 2 + len(MADE.cells)


def test_csv_has_a_line_for_each_cell() -> None:
    rows = list(csv.DictReader(io.StringIO(shown(MADE, "csv"))))
    assert [row["op"] for row in rows] == [one.op for one in MADE.cells]
    assert rows[1]["outcome"] == "wrong"


def test_changes_name_what_was_and_is() -> None:
    now = replace(
        MADE,
        cells=(
            cell(outcome=Outcome.WRONG, detail="off by one"),
            cell("aten.mul.Tensor"),
            cell("aten.sin.default", answer=Answer.REFUSED, code="dtype", reason="other words"),
            cell("lstm"),
        ),
    )
    found = changes(MADE, now)
    assert [str(one) for one in found] == [
        "aten.add.Tensor npu float32 static: right -> wrong (off by one)",
        "lstm npu float32 static: partly (no rule) -> claimed",
    ]
    assert changes_text(found, "ops.json").startswith("2 changed since ops.json:\n- aten.add")
    assert changes_text([], "ops.json") == "as in ops.json\n"


def test_an_op_that_is_new() -> None:
    was = replace(MADE, cells=MADE.cells[1:])
    assert [str(one) for one in changes(was, MADE)] == [
        "aten.add.Tensor npu float32 static: nothing -> right"
    ]


def test_a_difference_beyond_tolerance_is_told_with_its_place() -> None:
    other = torch.tensor([[1.0, 2.0], [3.0, float("nan")]])
    mine = other.clone()
    assert _compare([mine], [other], CheckConfig()) == (0.0, "")
    mine[1, 0] = 3.5
    worst, fault = _compare([mine], [other], CheckConfig())
    assert worst == 0.5
    assert fault == "output 0: 1 of 4 elements differ, 3.5 instead of 3 at [1, 0]"
    mine = other.clone()
    mine[0, 0] = float("nan")
    assert "nan instead of 1 at [0, 0]" in _compare([mine], [other], CheckConfig())[1]


def test_half_precision_may_be_off_by_its_rounding() -> None:
    other = torch.tensor([100.0, 0.0], dtype=torch.float16)
    close = torch.tensor([100.1, 0.1], dtype=torch.float16)
    far = torch.tensor([101.0, 0.1], dtype=torch.float16)
    assert _compare([close], [other], CheckConfig())[1] == ""
    assert _compare([far], [other], CheckConfig())[1]


def test_integers_are_exact() -> None:
    one, two = torch.tensor([1, 2]), torch.tensor([1, 3])
    assert _compare([one], [two], CheckConfig())[1]
    assert "instead of torch.int64[2]" in _compare([one.float()], [one], CheckConfig())[1]
