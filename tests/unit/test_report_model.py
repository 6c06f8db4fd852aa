"""What a report tells beyond its rows, its JSON schema, and its tables for notebooks."""

from __future__ import annotations

import json
from dataclasses import replace
from html.parser import HTMLParser
from typing import Any

import jsonschema
import pytest
from click.testing import CliRunner

from cede.cli import main
from cede.costs import Timing
from cede.planning import Plan
from cede.quant.pt2e.rows import AnnotatedRow, AnnotationReport
from cede.quant.source.rows import QuantizationReport, QuantizedRow
from cede.reporting import Comparison, LargeValue, MemoryUse, Rank, Report, json_schema, make_report
from cede.reporting.borders import Border, Figures, Meeting
from cede.types import Code, GraphInput, InputKind, OpGraph, Reason, Refusal

from .report_graphs import GRAPH, NO_KERNEL, fact, op, plan

SCALE = Reason(code=Code.QUANT_SCHEME, detail="only per tensor")


def rank(merged: int, ops: tuple[str, ...], reason: Reason = NO_KERNEL) -> Rank:
    before = make_report(plan(), GRAPH).totals
    after = replace(before, delegates=before.delegates - merged)
    comparison = Comparison(change="supporting it", before=before, after=after)
    return Rank(
        kind="aten.topk", backend="quick", ops=ops, touches=2, reason=reason, comparison=comparison
    )


@pytest.fixture
def report() -> Report:
    timing = Timing(
        seconds=4.0, calls=3, delegates={"d0": 1.0, "d1": 1.0}, ops={"aten_topk_default": 0.5},
        kernels={"d0": (("gemm", 0.5),)},
    )  # fmt: skip
    large = LargeValue(op="aten_neg_default", tensor="float32[2,2]", bytes=16, example_bytes=16)
    memory = MemoryUse(planned=16, live=16, example_live=16, largest=(large,), symbols=("s0",))
    found = make_report(plan(), GRAPH, timing, memory, (rank(2, ("aten_topk_default",)),))
    figures = Figures(
        dtype="int8", scale=0.5, zero_point=0, low=-128, high=127, axis=None, layout=(0, 1)
    )
    border = Border(
        op="aten_relu_default", reader="aten_topk_default", giver="d0 quick", taker="left",
        meeting=Meeting.HALF, given=figures, read=None,
    )  # fmt: skip
    return replace(found, borders=(border,))


def test_coverage_goes_by_ops_flops_bytes_and_time(report: Report) -> None:
    told = {given.of: (given.delegated, given.whole) for given in report.coverage}
    assert told == {
        "ops": (4, 5), "flops": (4000, 4000), "weight_bytes": (150, 150),
        "measured_seconds": (2.0, 2.5),
    }  # fmt: skip


def test_kernels_are_what_the_ops_outside_call(report: Report) -> None:
    assert [(kernel.operator, kernel.ops) for kernel in report.kernels] == [
        ("aten.sym_size.int", 1), ("aten.topk.default", 1),
    ]  # fmt: skip
    assert report.kernels[1].dtypes == ("float32", "int64")


def test_a_constant_of_two_delegates_is_named_with_the_bytes_of_its_copies(report: Report) -> None:
    [shared] = report.shared_constants
    assert (shared.name, shared.holders, shared.extra_bytes) == ("fc.weight", ("d0", "d1"), 100)


def test_advice_takes_from_the_ranking_what_gains_and_says_what_the_owner_can_do() -> None:
    topk = ("aten_topk_default",)
    nothing = make_report(plan(), GRAPH, ranking=(rank(0, topk),))
    assert [given.do for given in nothing.advice] == [
        "quantize or cast 1 op to numbers that slow takes",
        "bring the readers of fc.weight into one delegate",
    ]
    [first, second] = make_report(plan(), GRAPH, ranking=(rank(2, topk),)).advice
    assert first.do == "support aten.topk (1 op) on quick"
    assert first.gain.startswith("3 -> 1 delegates, ")
    assert second.do.startswith("bring the readers")  # the same op is not told about twice
    [first, *_] = make_report(plan(), GRAPH, ranking=(rank(2, topk, SCALE),)).advice
    assert first.do == "quantize aten.topk (1 op) in a scheme that quick takes"
    assert "Most useful to do" in make_report(plan(), GRAPH).text()


def test_nobody_is_told_to_quantize_an_index() -> None:
    index = GraphInput(id="x", kind=InputKind.USER, tensor=fact(2, dtype="int64"))
    graph = OpGraph(inputs=(index,), ops=(op("cat", "aten.cat.default", "x"),))
    dtype = Reason(code=Code.DTYPE, detail="int64 is not taken")
    refused = Refusal(partitioner="fast", op="cat", reason=dtype)
    bare = plan(delegations=(), losses=(), refusals=(refused,))
    given = rank(1, ("cat",), dtype)
    assert make_report(bare, graph).advice == ()
    [advice] = make_report(bare, graph, ranking=(given,)).advice
    assert advice.do == "support aten.topk (1 op) on quick"


SOURCE_ROWS = QuantizationReport(
    rows=(
        QuantizedRow(
            module="net.fc", kind="Linear", shape=(2, 2), scheme="int8", bytes_before=16,
            bytes_after=6, sqnr=40.0,
        ),
    ),
    bytes_before=16,
    bytes_after=6,
)  # fmt: skip
ANNOTATED = AnnotationReport(
    quantizer="quick",
    per_channel=True,
    calls=1,
    rows=(AnnotatedRow(module="net", op="aten.topk", count=1, note="<b>not</b> taken"),),
)


@pytest.mark.parametrize("quantization", [SOURCE_ROWS, ANNOTATED])
def test_quantization_is_in_every_form_that_tells_all(
    report: Report, quantization: QuantizationReport | AnnotationReport
) -> None:
    told = replace(report, quantization=quantization)
    assert quantization.verdict in told.summary()
    for form in (told.text(), told.markdown()):
        assert form.count("Quantization\n") == 1
        assert quantization.rows[0].note in form
    data = json.loads(told.json())
    assert data["quantization"]["verdict"] == quantization.verdict
    jsonschema.validate(data, closed(json.loads(json_schema())))
    page = told.html()
    assert "<summary>Quantization</summary>" in page
    assert "<b>not" not in page


def closed(schema: Any) -> Any:
    """The schema without room for fields that it does not name."""
    if isinstance(schema, list):
        return [closed(part) for part in schema]
    if not isinstance(schema, dict):
        return schema
    found = {key: closed(part) for key, part in schema.items()}
    if "properties" in found and isinstance(found.get("required"), list):
        found.setdefault("additionalProperties", False)
    return found


def test_the_schema_names_every_field_of_a_report(report: Report) -> None:
    schema = json.loads(json_schema())
    jsonschema.Draft202012Validator.check_schema(schema)
    data = json.loads(report.json())
    assert data["measured"]["kernels"]
    assert data["ranking"]
    assert data["borders"]
    jsonschema.validate(data, closed(schema))
    del data["verdict"]
    with pytest.raises(jsonschema.ValidationError, match="'verdict' is a required"):
        jsonschema.validate(data, schema)
    assert schema["$defs"]["code"]["enum"] == [code.value for code in Code]


def test_the_schema_is_printed() -> None:
    result = CliRunner().invoke(main, ["report", "--schema"])
    assert (result.exit_code, result.stdout) == (0, json_schema())


class Tags(HTMLParser):
    """Fails on a tag that is not closed, and collects the text."""

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.seen: set[str] = set()
        self.text = ""

    def handle_starttag(self, tag: str, attrs: object) -> None:
        self.seen.add(tag)
        if tag != "br":
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.text += data


def parsed(text: str) -> Tags:
    tags = Tags()
    tags.feed(text)
    assert tags.open == []
    return tags


def test_a_notebook_shows_escaped_tables() -> None:
    warned = plan(warnings=("<script>alert(1)</script>",))
    for shown in (warned, make_report(warned, GRAPH)):
        tags = parsed(shown._repr_html_())
        assert "table" in tags.seen
        assert "script" not in tags.seen
        assert "<script>alert(1)</script>" in tags.text
    assert "4 of 5 ops (80 %)" in tags.text
    assert parsed(Plan(fingerprint="")._repr_html_()).text.strip().endswith("0 ops in 0 delegates")


def test_a_notebook_shows_no_more_rows_than_fit() -> None:
    ops = tuple(op(f"op_{i}", f"aten.op{i}.default") for i in range(3))
    some = plan(delegations=plan().delegations * 20, refusals=(), losses=())
    assert "and 10 more" in parsed(some._repr_html_()).text
    bare = Plan(fingerprint="")
    assert "0 of 3 ops" in make_report(bare, OpGraph(ops=ops))._repr_html_()
