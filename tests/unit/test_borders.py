"""Borders of quantized values, from facts alone."""

from __future__ import annotations

from typing import Any

import pytest

from cede.errors import LoweringError
from cede.lowering.borders import unlike
from cede.planning import Plan
from cede.reporting import make_report
from cede.reporting.borders import Meeting, borders
from cede.types import Delegation, GraphInput, InputKind, Op, OpGraph, Part, Ref, TensorFact

SCHEME = {"scale": 0.5, "zero_point": 3, "quant_min": -128, "quant_max": 127, "dtype": "int8"}


def op(id: str, target: str, reads: str, order: tuple[int, ...] = (0, 1), **scheme: Any) -> Op:
    fact = TensorFact(shape=(2, 4), dtype="float32", nbytes=32, dim_order=order)
    args = (("input", Ref(reads)), *scheme.items())
    return Op(id=id, target=target, args=args, inputs=(reads,), outputs=(fact,))


def quantize(id: str, reads: str, **other: Any) -> Op:
    return op(id, "quantized_decomposed.quantize_per_tensor.default", reads, **SCHEME | other)


def dequantize(id: str, reads: str, **other: Any) -> Op:
    return op(id, "quantized_decomposed.dequantize_per_tensor.default", reads, **SCHEME | other)


def made(*ops: Op, taken: dict[str, str]) -> tuple[Plan, OpGraph]:
    """A plan where each op is in the delegation of that name, or left without."""
    x = GraphInput(id="x", kind=InputKind.USER, tensor=TensorFact(shape=(2, 4), dtype="float32"))
    graph = OpGraph(inputs=(x,), ops=ops, outputs=(ops[-1].id,), fingerprint="f")
    names = dict.fromkeys(taken.values())
    delegations = tuple(
        Delegation(
            id=name,
            backend=f"npu-{name}",
            parts=(Part(partitioner="npu", ops=tuple(o for o in taken if taken[o] == name)),),
        )
        for name in names
    )
    return Plan(fingerprint="f", delegations=delegations, graph=graph), graph


def meetings(plan: Plan, graph: OpGraph) -> list[Meeting]:
    return [border.meeting for border in borders(plan, graph)]


def test_both_sides_mean_the_same() -> None:
    ops = [quantize("q", "x"), dequantize("d", "q"), op("add", "aten.add.Tensor", "d")]
    plan, graph = made(*ops, taken={"q": "d0", "d": "d1", "add": "d1"})
    [border] = borders(plan, graph)
    assert border.meeting is Meeting.AGREES
    assert (border.giver, border.taker) == ("d0 npu-d0", "d1 npu-d1")
    assert str(border.given) == "int8 -128..127 scale 0.5 zero point 3"
    assert unlike(plan, graph) == ()
    report = make_report(plan, graph)
    assert "1 border of quantized values: 1 agrees" in report.text()
    inside, _ = made(*ops, taken={"q": "d0", "d": "d0", "add": "d0"})
    assert borders(inside, graph) == ()
    assert "border" not in make_report(inside, graph).text()


def test_a_value_is_rounded_again() -> None:
    ops = [
        quantize("q", "x"), dequantize("d", "q"),
        quantize("q2", "d", scale=0.25), dequantize("d2", "q2", scale=0.25),
    ]  # fmt: skip
    plan, graph = made(*ops, taken={"q": "d0", "d": "d0", "q2": "d1", "d2": "d1"})
    assert meetings(plan, graph) == [Meeting.REQUANTIZED]
    plan, graph = made(*ops, taken={"q": "d0", "d2": "d1"})
    assert meetings(plan, graph) == [Meeting.AGREES, Meeting.REQUANTIZED, Meeting.AGREES]
    plan, graph = made(*ops, taken={"q": "d0", "d": "d0"})
    assert meetings(plan, graph) == [Meeting.REQUANTIZED, Meeting.AGREES]


def test_one_side_is_in_float() -> None:
    ops = [quantize("q", "x"), dequantize("d", "q"), op("exp", "aten.exp.default", "d")]
    plan, graph = made(*ops, taken={"q": "d0", "d": "d0"})
    [border] = borders(plan, graph)
    assert (border.meeting, border.read, border.taker) == (Meeting.HALF, None, "left")


def test_integers_read_by_another_scale_are_told() -> None:
    ops = [quantize("q", "x"), dequantize("d", "q", scale=0.25)]
    plan, graph = made(*ops, taken={"q": "d0", "d": "d1"})
    [warning] = unlike(plan, graph)
    assert "scale 0.5 zero point 3" in warning
    assert "scale 0.25 zero point 3" in warning


@pytest.mark.parametrize(
    ("reader", "name"),
    [
        (dequantize("d", "q", dtype="uint8"), "dtype"),
        (dequantize("d", "q", axis=1), "axis"),
        (dequantize("d", "q", order=(1, 0)), "layout"),
    ],
)
def test_integers_read_as_something_else_are_an_error(reader: Op, name: str) -> None:
    plan, graph = made(quantize("q", "x"), reader, taken={"q": "d0", "d": "d1"})
    with pytest.raises(LoweringError, match=rf"disagree in {name}: q \(d0 npu-d0: int8"):
        unlike(plan, graph)
