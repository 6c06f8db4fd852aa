"""Seconds of ops, borders and launches, and what a plan is predicted to take."""

from __future__ import annotations

from dataclasses import replace

import pytest

from cede.costs import CostModel, default_costs, moved_bytes, predicted, seconds
from cede.types import (
    Costs,
    Delegation,
    GraphInput,
    InputKind,
    Measured,
    Op,
    OpGraph,
    Part,
    Rates,
    Settlement,
    TensorFact,
)

RATES = Rates(flops_per_second=1e9, bytes_per_second=1e6, op_seconds=1e-6)


def fact(nbytes: int, dtype: str = "float32", order: tuple[int, ...] = ()) -> TensorFact:
    return TensorFact(shape=(1,) * len(order), dtype=dtype, nbytes=nbytes, dim_order=order)


def op(id: str, *inputs: str, nbytes: int = 1000, flops: int = 0, **more: object) -> Op:
    given = {"target": "aten.op.default", "outputs": (fact(nbytes),), **more}
    return Op(id=id, inputs=inputs, flops=flops, **given)


def graph(*ops: Op, outputs: tuple[str, ...] = (), **more: object) -> OpGraph:
    inputs = (
        GraphInput(id="x", kind=InputKind.USER, tensor=fact(500)),
        GraphInput(id="w", kind=InputKind.PARAMETER, tensor=fact(3000)),
    )
    return OpGraph(**{"inputs": inputs, "ops": ops, "outputs": outputs, **more})


def took(given: OpGraph, rates: Rates = RATES, backend: str = "") -> list[float]:
    return CostModel(given, Costs(fallback=rates, backends={"b": rates})).compute(backend)


def settled(*delegates: tuple[str, ...], backend: str = "b") -> Settlement:
    return Settlement(
        delegations=tuple(
            Delegation(id=f"d{i}", backend=backend, parts=(Part(partitioner="p", ops=ops),))
            for i, ops in enumerate(delegates)
        )
    )


def test_an_op_is_bound_by_flops_or_by_bytes():
    given = graph(op("a", "x", "w", nbytes=500, flops=9_000_000), op("b", "x", nbytes=500))
    assert moved_bytes(given.op("a"), given) == 4000
    assert moved_bytes(given.op("a"), given, constants=False) == 1000
    assert took(given) == pytest.approx([9e-3 + 1e-6, 1e-3 + 1e-6])


def test_what_computes_no_tensor_is_free():
    given = graph(
        op("a", "x"),
        op("pick", "a", target="getitem"),
        op("size", "x", outputs=(TensorFact(shape=(), dtype="SymInt"),)),
        op("flow", "a", target="cond", branches=("t/",)),
    )
    assert took(given)[1:] == [0.0, 0.0, 0.0]


@pytest.mark.parametrize(
    ("flops", "expected"), [(10, 1e-6), (100, 1e-6), (1000, 1e-5), (10_000, 1e-4), (20_000, 2e-4)]
)
def test_measurements_go_before_flops(flops: int, expected: float):
    measured = Measured(kind="aten.op", dtype="float32", points=((100, 1e-6), (10_000, 1e-4)))
    rates = Rates(flops_per_second=1.0, bytes_per_second=1e18, op_seconds=9.0, measured=(measured,))
    assert took(graph(op("a", "x", flops=flops)), rates) == pytest.approx([expected])
    other = graph(op("a", "x", flops=1, outputs=(fact(4, "int8"),)))
    assert took(other, rates) == pytest.approx([10.0])


def test_given_seconds_go_before_all():
    costs = Costs(fallback=RATES, backends={"b": RATES}, given={("b", "a"): 5.0})
    model = CostModel(graph(op("a", "x")), costs)
    assert model.compute("b") == [5.0]
    assert model.compute("")[0] < 1.0


def test_a_border_converts_layouts_and_dtypes_that_the_backend_does_not_take():
    rates = replace(
        RATES, border_seconds=1.0, border_bytes_per_second=10.0,
        dim_order=(0, 2, 3, 1), dtypes=("float16",),
    )  # fmt: skip
    costs = Costs(fallback=RATES, backends={"b": rates})

    def crossing(tensor: TensorFact) -> float:
        given = graph(op("a", "x", outputs=(tensor,)), outputs=("a",))
        model = CostModel(given, costs)
        (value,) = [value for value in model.values if value.producer == 0]
        return model.crossing(value, "b")

    plain = 1.0 + 100 / 10
    assert crossing(fact(100, "float16", (0, 2, 3, 1))) == pytest.approx(plain)
    assert crossing(fact(100, "float16", (0, 1))) == pytest.approx(plain)
    assert crossing(fact(100, "int64")) == pytest.approx(plain)
    assert crossing(fact(100, "float16", (0, 1, 2, 3))) == pytest.approx(plain + 200 / 1e6)
    assert crossing(fact(100, "float32")) == pytest.approx(plain + 200 / 1e6)


def test_each_value_counts_once_where_it_leaves_and_once_in_each_delegate_that_it_enters():
    given = graph(
        op("a", "x", "w"), op("b", "a"), op("c", "a"), op("d", "b", "c"), outputs=("d", "a")
    )
    rates = replace(RATES, border_seconds=1.0, launch_seconds=10.0)
    costs = Costs(fallback=RATES, backends={"b": rates}, given={("b", i): 0.5 for i in "abcd"})
    found = predicted(given, settled(("a",), ("b", "c"), ("d",)), costs)
    assert [d.border for d in found.delegates] == [2.0, 3.0, 3.0]  # x,a  a,b,c  b,c,d
    assert [d.launch for d in found.delegates] == [10.0] * 3
    assert [d.compute for d in found.delegates] == [0.5, 1.0, 0.5]
    assert found.fallback == 0.0
    assert found.seconds == pytest.approx(30 + 8 + 2)
    assert found.delegates[1].seconds == pytest.approx(14.0)


def test_a_branch_gets_its_inputs_from_its_control_flow_op_and_gives_it_what_it_returns():
    ops = (
        op("t/m", "t/in", scope="t/"),
        op("t/n", "t/m", scope="t/"),
        op("flow", "x", target="cond", branches=("t/",)),
    )
    inputs = (
        GraphInput(id="x", kind=InputKind.USER, tensor=fact(500)),
        GraphInput(id="t/in", kind=InputKind.USER, tensor=fact(500), scope="t/"),
    )
    given = OpGraph(inputs=inputs, ops=ops, outputs=("flow",), returns=(("t/", ("t/n",)),))
    costs = Costs(fallback=RATES, backends={"b": replace(RATES, border_seconds=1.0)})

    def border(*delegates: tuple[str, ...]) -> float:
        return predicted(given, settled(*delegates), costs).border

    assert border(("t/m",)) == 2.0
    assert border(("t/n",)) == 2.0
    assert border(("t/m", "t/n")) == 2.0
    assert border(("t/m", "t/n", "flow")) == 2.0


def test_default_costs_know_a_backend_that_tells_no_rates():
    costs = default_costs({"known": RATES, "mute": None})
    assert costs.backends["known"] is RATES
    assert costs.backends["mute"].flops_per_second > costs.fallback.flops_per_second > 0
    assert costs.backends["mute"].launch_seconds > 0


@pytest.mark.parametrize(
    ("value", "text"),
    [(0, "0.0 us"), (1.24e-6, "1.2 us"), (123.4e-6, "123 us"), (4.56e-3, "4.6 ms"),
     (0.9999, "1.00 s"), (12.3, "12.30 s")],
)  # fmt: skip
def test_seconds_in_words(value: float, text: str):
    assert seconds(value) == text
