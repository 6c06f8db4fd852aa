"""The report as text, Markdown, CSV and JSON, and the explanation of one op."""

from __future__ import annotations

import csv
import dataclasses
import io
import json
import re

import pytest

from cede.errors import ConfigError, PlanError
from cede.reporting import Report, explain, make_report
from cede.reporting.render import verdict
from cede.reporting.tables import quantity, share

from .report_graphs import GRAPH, plan


@pytest.fixture
def report() -> Report:
    return make_report(plan(), GRAPH)


TEXT = """\
4 of 5 ops (80 %) in 3 delegates, 100 % of FLOPs, 100 % of weight bytes; 2 bookkeeping ops apart
"""


def test_text(report: Report) -> None:
    text = report.text()
    assert text.startswith(TEXT)
    titles = ["Delegates", "Ops", "Totals by module", "Totals by op type", "Warnings"]
    assert [line for line in text.splitlines() if line in titles] == titles
    assert text.endswith("Warnings\n- plugin acme is old\n")
    line = next(line for line in text.splitlines() if line.startswith("aten_linear_default  "))
    assert line.split() == [
        "aten_linear_default", "net.fc", "[ffn.up]", "quick", "d0", "float32[2,2]",
    ]  # fmt: skip


def test_one_is_no_plural(report: Report) -> None:
    sums = dataclasses.replace(report.totals, bookkeeping=1, delegates=1)
    assert "in 1 delegate, " in verdict(sums)
    assert verdict(sums).endswith("; 1 bookkeeping op apart")
    assert "bookkeeping" not in verdict(dataclasses.replace(sums, bookkeeping=0))


def test_long_reasons_wrap_and_keep_every_word(report: Report) -> None:
    text = report.text(120)
    assert max(map(len, text.splitlines()[1:])) <= 120
    ops = text[text.index("\nOps\n") : text.index("\nTotals by module\n")]
    words = "fast: unknown-op: topk is not taken; slow: dtype: float32 | only int8 is taken".split()
    assert set(words) <= set(ops.split())


def test_a_narrow_terminal_still_gets_a_table(report: Report) -> None:
    assert "aten_topk_default" in report.text(20)


def test_rich_text_is_the_plain_text_with_escapes(report: Report) -> None:
    for width in (None, 90):
        rich = report.text(width, rich=True)
        assert "\x1b" not in report.text(width)
        assert re.sub(r"\x1b\[\d+m", "", rich) == report.text(width)
        assert "\x1b[33maten_topk_default\x1b[0m" in rich  # left
        assert "\x1b[33maten_relu_default\x1b[0m" not in rich
        assert "\x1b[1mDelegates\x1b[0m" in rich
    assert re.sub(r"\x1b\[\d+m", "", report.summary(rich=True)) == report.summary()


def test_no_form_has_trailing_surprises(report: Report) -> None:
    for form in (report.text(), report.summary(), report.markdown(), report.csv(), report.json()):
        assert form.endswith("\n")
        assert not form.endswith("\n\n")


def test_summary_counts_reasons_of_the_ops_left(report: Report) -> None:
    text = report.summary()
    assert "\nOps\n" not in text
    rows = [line.split() for line in text[text.index("Ops left, by reason") :].splitlines()]
    assert ["fast", "unknown-op", "1"] in rows
    assert ["slow", "dtype", "1"] in rows


def test_markdown_escapes_bars(report: Report) -> None:
    text = report.markdown()
    assert "## Ops" in text
    row = next(line for line in text.splitlines() if line.startswith("| aten_topk_default "))
    assert r"float32 \| only int8" in row
    assert len(re.findall(r"(?<!\\)\|", row)) == 7


def test_csv_has_a_column_for_each_partitioner(report: Report) -> None:
    rows = list(csv.DictReader(io.StringIO(report.csv())))
    assert len(rows) == len(GRAPH.ops)
    relu = next(row for row in rows if row["op"] == "aten_relu_default")
    assert relu["answer:fast"] == "took"
    assert relu["answer:slow"] == "lost (outbid: fast has priority)"
    assert relu["bytes"] == "16"


def test_json_holds_everything(report: Report) -> None:
    data = json.loads(report.json())
    assert data["schema"] == 1
    assert list(data) == [
        "schema", "method", "fingerprint", "verdict", "advice", "partitioners", "backends",
        "totals", "coverage", "delegates", "by_type", "by_module", "ops", "states", "kernels",
        "shared_constants", "ranking", "warnings",
    ]  # fmt: skip
    assert data["totals"]["delegated"] == 4
    topk = next(row for row in data["ops"] if row["op"] == "aten_topk_default")
    assert topk["answers"][1] == {
        "partitioner": "slow",
        "outcome": "refused",
        "code": "dtype",
        "detail": "float32 | only int8 is taken",
    }


def test_the_same_plan_gives_the_same_text(report: Report) -> None:
    again = make_report(plan(), GRAPH)
    for form in ("text", "summary", "markdown", "csv", "json"):
        assert getattr(report, form)() == getattr(again, form)()


EXPLAINED = """\
aten_linear_default_1  aten.linear.default
  in: d1 (quick, claimed by fast)
  module: out
  outputs: float32[2,2]
  FLOPs: 3000
  bytes: 166
  answers:
    fast: took
    slow: refused (dtype: float32 | only int8 is taken)
  arguments:
    a0 = getitem
    a1 = p_out_weight
    a2 = p_fc_weight
  reads:
    getitem: float32[2,1], no delegate
    p_out_weight: parameter out.weight float32[2,2]
    p_fc_weight: parameter fc.weight float32[2,2]
  read by:
    aten_neg_default: aten.neg.default, d2 (lazy, claimed by slow)
"""


def test_explain_an_op_by_id(report: Report) -> None:
    assert explain(report, "aten_linear_default_1") == EXPLAINED


def test_explain_an_exact_id_is_that_op_alone(report: Report) -> None:
    text = explain(report, "aten_linear_default")
    assert text.count("answers:") == 1
    assert "layer: ffn.up" in text
    assert "source: net.py:7" in text
    assert "the caller (an output)" in text


@pytest.mark.parametrize(
    ("pattern", "count"),
    [("linear", 2), ("aten.linear", 2), ("aten_(relu|neg)", 2), ("getitem", 1)],
)
def test_explain_by_part_or_expression(report: Report, pattern: str, count: int) -> None:
    assert explain(report, pattern).count("answers:") == count


def test_explain_takes_a_plan_with_its_graph() -> None:
    assert explain(plan(graph=GRAPH), "aten_linear_default_1") == EXPLAINED
    with pytest.raises(PlanError, match="plan the program again"):
        explain(plan(), "aten_linear_default_1")


def test_explain_nothing_names_the_nearest(report: Report) -> None:
    with pytest.raises(ConfigError, match="did you mean aten_topk_default"):
        explain(report, "aten_topk_defualt")
    with pytest.raises(ConfigError, match="no op matches"):
        explain(report, "[")


def test_shares_never_round_to_all_or_nothing() -> None:
    assert [share(1, 1), share(0, 3), share(9999, 10000), share(1, 10**6), share(1, 3)] == [
        "100 %", "0 %", "99.9 %", "0.1 %", "33.3 %",
    ]  # fmt: skip
    assert share(0, 0) == "-"


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        (0, "0 B"), (999, "999 B"), (1000, "1 kB"), (1234567, "1.23 MB"), (999999, "1 MB"),
        (12 * 10**15, "12000 TB"),
    ],
)  # fmt: skip
def test_quantities(value: int, shown: str) -> None:
    assert quantity(value, "B") == shown


def test_an_op_whose_id_does_not_tell_its_operator_is_shown_with_it(report: Report) -> None:
    row = dataclasses.replace(report.rows[2], op="auto_functionalized_v2", target="acme.scan.out")
    text = dataclasses.replace(report, rows=(row,)).text()
    assert "auto_functionalized_v2 (acme.scan.out)" in text
    assert "aten_relu_default (" not in report.text()
