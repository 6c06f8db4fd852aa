"""What nothing holds in its delegate goes to the later one that reads it."""

from __future__ import annotations

from dataclasses import replace

from hypothesis import given, settings
from hypothesis import strategies as st

from cede.settle import check_settlement, settle
from cede.types import Claim, Contest, GraphInput, InputKind, Limits, Op, OpGraph, TensorFact


def value(size: int) -> TensorFact:
    return TensorFact(shape=(size,), dtype="int8", nbytes=size)


def op(id: str, *inputs: str, size: int = 8) -> Op:
    return Op(id=id, target="aten.op", inputs=inputs, outputs=(value(size),))


def contest(graph: OpGraph, claimed: dict[str, str], **given: object) -> Contest:
    claims = [
        Claim(partitioner=name, backend=name, ops=frozenset({op}), divisible=True)
        for op, name in claimed.items()
    ]
    order = tuple(sorted(set(claimed.values())))
    return Contest(graph=graph, claims=tuple(claims), order=order, **given)


def crossing(graph: OpGraph, groups: dict[str, str]) -> int:
    """Bytes that enter delegates or leave them, once for each delegate."""
    total = 0
    for made in (*graph.inputs, *graph.ops):
        tensor = made.tensor if isinstance(made, GraphInput) else made.outputs[0]
        own = groups.get(made.id)
        reading = {groups.get(user) for user in graph.users(made.id)} - {own}
        crosses = own is not None and (bool(reading) or made.id in graph.outputs)
        total += (len(reading - {None}) + crosses) * tensor.nbytes
    return total


def delegates(contest: Contest) -> dict[str, str]:
    settlement = settle(contest)
    assert not check_settlement(contest.graph, settlement)
    return {op: given.id for given in settlement.delegations for op in given.ops}


X = GraphInput(id="x", kind=InputKind.USER, tensor=value(8))
# two branches of x in the first delegate; only what `mid` made holds the second one back
PASSED_ON = OpGraph(
    inputs=(X,),
    ops=(op("a", "x"), op("mid", "a"), op("loose", "x"), op("b", "mid", "loose")),
    outputs=("b",),
)
CLAIMED = {"a": "npu", "loose": "npu", "b": "npu"}


def test_what_only_a_later_delegate_reads_goes_there() -> None:
    found = delegates(contest(PASSED_ON, CLAIMED))
    assert found["loose"] == found["b"] != found["a"]


def test_where_more_bytes_would_cross_it_stays() -> None:
    ops = (op("a", "x"), op("mid", "a"), op("loose", "x", size=3), op("b", "mid", "loose"))
    found = delegates(contest(replace(PASSED_ON, ops=ops), CLAIMED))
    assert found["loose"] == found["a"]


def test_what_is_read_elsewhere_stays() -> None:
    for more in ({"outputs": ("b", "loose")}, {"ops": (*PASSED_ON.ops, op("left", "loose"))}):
        found = delegates(contest(replace(PASSED_ON, **more), CLAIMED))
        assert found["loose"] == found["a"]


def test_limits_and_connected_backends_stay_as_they_are() -> None:
    limited = {"limits": {"npu": Limits(min_ops=1)}}
    found = delegates(contest(PASSED_ON, CLAIMED, **limited))
    assert found["loose"] == found["a"]
    found = delegates(contest(PASSED_ON, CLAIMED, connected=frozenset({"npu"})))
    assert len(set(found.values())) == 3


@st.composite
def sized(draw: st.DrawFn) -> Contest:
    ops: list[Op] = []
    for number in range(draw(st.integers(2, 14))):
        known = ["x", *(made.id for made in ops)]
        inputs = draw(st.lists(st.sampled_from(known[-5:]), min_size=1, max_size=3, unique=True))
        ops.append(op(f"o{number}", *inputs, size=draw(st.sampled_from((1, 4, 16)))))
    takers = draw(st.lists(st.sampled_from(("pa", "pa", "pb", "")), min_size=14, max_size=14))
    graph = OpGraph(inputs=(X,), ops=tuple(ops), outputs=(ops[-1].id,))
    claimed = {made.id: name for made, name in zip(ops, takers, strict=False) if name}
    return contest(graph, claimed)


@given(sized())
@settings(max_examples=150)
def test_never_more_bytes_nor_delegates_than_where_sizes_are_unknown(given: Contest) -> None:
    blind = replace(
        given.graph, ops=tuple(replace(o, outputs=(value(0),)) for o in given.graph.ops)
    )
    without = delegates(replace(given, graph=replace(blind, inputs=(replace(X, tensor=None),))))
    found = delegates(given)
    assert set(found) == set(without)
    assert len(set(found.values())) <= len(set(without.values()))
    assert crossing(given.graph, found) <= crossing(given.graph, without)
