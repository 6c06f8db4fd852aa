"""The report's rows, totals and shares."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import replace

import pytest

from cede.errors import PlanError, PolicyError
from cede.reporting import (
    DelegateTotal,
    ModuleTotal,
    Outcome,
    Report,
    Totals,
    TypeTotal,
    make_report,
    require_whole,
)
from cede.types import Delegation, GraphInput, InputKind, OpGraph, Part, Ref

from .report_graphs import GRAPH, fact, op, plan


@pytest.fixture
def report() -> Report:
    return make_report(plan(), GRAPH)


def row(report: Report, id: str):  # type: ignore[no-untyped-def]
    return next(row for row in report.rows if row.op == id)


def test_one_row_an_op_in_order(report: Report) -> None:
    assert [row.op for row in report.rows] == [op.id for op in GRAPH.ops]


def test_a_taken_op_names_its_delegate_and_has_no_reason(report: Report) -> None:
    taken = row(report, "aten_relu_default")
    assert (taken.backend, taken.delegate, taken.partitioner) == ("quick", "d0", "fast")
    assert taken.reason == ""
    assert [(a.partitioner, a.outcome) for a in taken.answers] == [
        ("fast", Outcome.TOOK),
        ("slow", Outcome.LOST),
    ]
    assert str(taken.answers[1]) == "lost (outbid: fast has priority)"


def test_a_left_op_has_every_partitioner_s_reason_in_order(report: Report) -> None:
    left = row(report, "aten_topk_default")
    assert (left.backend, left.delegate, left.partitioner) == ("", "", "")
    assert left.reason == (
        "fast: unknown-op: topk is not taken; slow: dtype: float32 | only int8 is taken"
    )
    assert left.outputs == "float32[2,1] int64[2,1]"


def test_bytes_are_outputs_and_constants(report: Report) -> None:
    assert row(report, "aten_linear_default").bytes == 16 + 100
    assert row(report, "aten_linear_default_1").bytes == 16 + 50 + 100
    assert row(report, "aten_relu_default").bytes == 16


def test_totals_count_a_shared_constant_once(report: Report) -> None:
    assert report.totals == Totals(
        ops=5, delegated=4, bookkeeping=2, delegates=3, flops=4000, delegated_flops=4000,
        weight_bytes=150, delegated_weight_bytes=150,
    )  # fmt: skip
    assert [row.op for row in report.left] == ["aten_topk_default"]


def test_by_type_counts_values_that_leave_a_delegate_as_getitem(report: Report) -> None:
    assert report.by_type == (
        TypeTotal(op_type="aten_linear_default", delegated=2, non_delegated=0),
        TypeTotal(op_type="aten_neg_default", delegated=1, non_delegated=0),
        TypeTotal(op_type="aten_relu_default", delegated=1, non_delegated=0),
        TypeTotal(op_type="aten_topk_default", delegated=0, non_delegated=1),
        TypeTotal(op_type="getitem", delegated=0, non_delegated=1 + 4),
        TypeTotal(op_type="sym_size_int", delegated=0, non_delegated=1),
    )


def test_by_module_adds_up_the_tree(report: Report) -> None:
    assert report.by_module == (
        ModuleTotal(module="", ops=5, delegated=4, flops=4000, delegated_flops=4000),
        ModuleTotal(module="net", ops=3, delegated=2, flops=1000, delegated_flops=1000),
        ModuleTotal(module="net.fc", ops=1, delegated=1, flops=1000, delegated_flops=1000),
        ModuleTotal(module="net.act", ops=1, delegated=1, flops=0, delegated_flops=0),
        ModuleTotal(module="out", ops=2, delegated=2, flops=3000, delegated_flops=3000),
    )


def test_by_delegate_tells_what_crosses_and_why_it_ends(report: Report) -> None:
    first, second, third = report.by_delegate
    assert first == DelegateTotal(
        id="d0", backend="quick", partitioners=("fast",), ops=2, flops=1000, bytes_in=8,
        bytes_out=32,
        ends="aten_topk_default: " + row(report, "aten_topk_default").reason,
    )  # fmt: skip
    assert second.bytes_in == second.bytes_out == 16
    assert second.ends == ("aten_neg_default: in d2 (lazy); fast: unknown-op: topk is not taken")
    assert third.ends == "output"


def test_ops_nobody_was_asked_about() -> None:
    report = make_report(
        plan(delegations=(), refusals=(), losses=(), partitioners=(), warnings=()), GRAPH
    )
    assert {row.reason for row in report.rows} == {"no partitioner was asked"}
    assert report.totals.delegated == 0


def test_an_empty_program() -> None:
    empty = make_report(
        plan(delegations=(), refusals=(), losses=(), partitioners=(), warnings=()), OpGraph()
    )
    assert empty.text() == ("0 of 0 ops (-) in 0 delegates, - of FLOPs, - of weight bytes\n")


def branches() -> tuple[OpGraph, Delegation]:
    graph = OpGraph(
        inputs=(
            GraphInput(id="x", kind=InputKind.USER, tensor=fact(2)),
            GraphInput(id="p_w", kind=InputKind.PARAMETER, tensor=fact(2, nbytes=40), target="w"),
            GraphInput(
                id="cond/true/w", kind=InputKind.CONSTANT, tensor=fact(2, nbytes=40),
                scope="cond/true",
            ),
        ),
        ops=(
            op("cond/true/aten_add", "aten.add.Tensor", "cond/true/w", scope="cond/true"),
            op("cond", "cond", "x", "p_w", branches=("cond/true",)),
            op("getitem", "getitem", "cond"),
        ),
        outputs=("getitem",),
        returns=(("cond/true", ("cond/true/aten_add",)),),
    )  # fmt: skip
    given = Delegation(
        id="d0",
        backend="quick",
        parts=(Part(partitioner="fast", ops=tuple(o.id for o in graph.ops)),),
    )
    return graph, given


def test_branch_ops_have_rows_but_are_no_top_nodes() -> None:
    graph, given = branches()
    report = make_report(plan(delegations=(given,), refusals=(), losses=()), graph)
    assert report.totals.ops == 2
    assert report.totals.weight_bytes == 40
    assert report.by_type == (
        TypeTotal(op_type="cond", delegated=1, non_delegated=0),
        TypeTotal(op_type="getitem", delegated=1, non_delegated=1),
    )
    assert report.by_delegate[0].bytes_out == 16


def test_a_plan_of_another_program_is_refused() -> None:
    with pytest.raises(PlanError, match="the plan is for another program"):
        make_report(plan(), replace(GRAPH, fingerprint="ab"))


def test_strict_names_ops_with_place_and_reason_and_every_warning(report: Report) -> None:
    with pytest.raises(PolicyError) as caught:
        require_whole(report, ["plugin 'x' failed"])
    assert str(caught.value).splitlines() == [
        "strict: 1 of 5 ops are outside a delegate:",
        f"  {GRAPH.op('aten_topk_default').where}: {row(report, 'aten_topk_default').reason}",
        "strict: warning: plugin acme is old",
        "strict: plugin 'x' failed",
    ]


def test_strict_lets_bookkeeping_be() -> None:
    ops = (op("sym_size_int", "aten.sym_size.int", outputs=(fact(dtype="SymInt"),)),)
    require_whole(
        make_report(plan(delegations=(), refusals=(), losses=(), warnings=()), OpGraph(ops=ops))
    )


def test_reports_import_no_torch() -> None:
    code = "import sys, cede.reporting; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code]).returncode == 0


def test_arguments_keep_their_place() -> None:
    assert op("a", "t", "b").arg("a0") == Ref("b")
