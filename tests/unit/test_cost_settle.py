"""Cost mode: valid whatever the graph, as cheap as the oracle says, and with figures as reasons."""

from __future__ import annotations

import random
import re
from dataclasses import replace

import pytest
from benchmarks.cost_gap import US, cost_of, gap, oracle, random_contest
from hypothesis import given, settings
from hypothesis import strategies as st

from cede.costs import predicted
from cede.errors import ConfigError
from cede.settle import check_settlement, settle
from cede.types import Claim, Code, Contest, Costs, Op, OpGraph, Rates, TensorFact

from .test_settle_properties import BACKENDS, contests


def rates(launch: float = 0.0, border: float = 0.0) -> Rates:
    return Rates(
        flops_per_second=1e9,
        bytes_per_second=1e9,
        launch_seconds=launch,
        border_seconds=border,
        border_bytes_per_second=1e12,
    )


def chain(names: str, costs: dict[str, dict[str, float]], launch: float, border: float) -> Contest:
    """Ops in a row; costs in us by backend ("": fallback); a backend claims what it has."""
    fact = TensorFact(shape=(1,), dtype="float32", nbytes=4)
    ops = tuple(
        Op(id=name, target="aten.op.default", inputs=tuple(names[i - 1 : i]), outputs=(fact,))
        for i, name in enumerate(names)
    )
    claims = tuple(
        Claim(partitioner=f"p{backend}", backend=backend, ops=frozenset((op,)))
        for backend, own in costs.items()
        if backend
        for op in own
    )
    order = tuple(f"p{backend}" for backend in costs if backend)
    table = {(b, op): took * US for b, own in costs.items() for op, took in own.items()}
    own = rates(launch * US, border * US)
    return Contest(
        graph=OpGraph(ops=ops, outputs=(names[-1],)),
        claims=claims,
        order=order,
        mode="cost",
        costs=Costs(fallback=own, backends={b: own for b in costs if b}, given=table),
    )


@st.composite
def priced(draw) -> Contest:
    contest = draw(contests())
    chance = random.Random(draw(st.integers(0, 2**30)))
    ops = tuple(
        replace(
            op,
            outputs=(TensorFact(shape=(), dtype="float32", nbytes=chance.randrange(5000)),),
        )
        for op in contest.graph.ops
    )
    table = {
        (name, op.id): chance.randrange(1, 20_000) * 1e-9 for name in ("", *BACKENDS) for op in ops
    }
    return replace(
        contest,
        graph=OpGraph(ops=ops),
        mode="cost",
        costs=Costs(
            fallback=rates(),
            backends=dict.fromkeys(BACKENDS, rates(chance.choice((0.0, 3 * US)), US)),
            given=table,
        ),
    )


@settings(max_examples=250, deadline=None)
@given(priced())
def test_what_holds_of_every_settlement_holds_in_cost_mode(contest: Contest):
    found = settle(contest)
    assert check_settlement(contest.graph, found) == []
    claimed = sorted({(op, c.partitioner) for c in contest.claims for op in c.ops})
    parts = [(op, p.partitioner) for d in found.delegations for p in d.parts for op in p.ops]
    losses = [(loss.op, loss.partitioner) for loss in found.losses]
    assert sorted([pair for pair in parts if pair in claimed] + losses) == claimed
    assert all(loss.reason.detail for loss in found.losses)
    priority = settle(replace(contest, mode="priority"))
    assert contest.costs is not None
    mine = predicted(contest.graph, found, contest.costs).seconds
    theirs = predicted(contest.graph, priority, contest.costs).seconds
    assert mine <= theirs * (1 + 1e-9)
    for name, bounds in contest.limits.items():
        own = [d for d in found.delegations if d.backend == name]
        assert bounds.max_delegates is None or len(own) <= bounds.max_delegates


@settings(max_examples=100, deadline=None)
@given(priced(), st.integers(0, 2**30))
def test_names_and_the_order_of_claims_decide_nothing(contest: Contest, seed: int):
    chance = random.Random(seed)
    ids = [op.id for op in contest.graph.ops]
    new = dict(zip(ids, chance.sample([f"r{i}" for i in range(len(ids))], len(ids)), strict=True))
    ops = tuple(
        replace(op, id=new[op.id], inputs=tuple(new.get(u, u) for u in op.inputs))
        for op in contest.graph.ops
    )
    claims = [replace(c, ops=frozenset(new[op] for op in c.ops)) for c in contest.claims]
    chance.shuffle(claims)
    assert contest.costs is not None
    table = {(name, new[op]): took for (name, op), took in contest.costs.given.items()}
    renamed = replace(
        contest,
        graph=OpGraph(ops=ops),
        claims=tuple(claims),
        costs=replace(contest.costs, given=table),
    )
    one, other = settle(contest), settle(renamed)
    assert [d.backend for d in one.delegations] == [d.backend for d in other.delegations]
    assert [[new[op] for op in d.ops] for d in one.delegations] == [
        list(d.ops) for d in other.delegations
    ]


@pytest.mark.parametrize("seed", range(40))
def test_one_backend_without_launch_is_as_cheap_as_the_oracle(seed: int):
    contest = random_contest(random.Random(seed), 8, 1, 0.0)
    found = cost_of(contest)
    assert oracle(contest, 1.0) == pytest.approx(found, rel=1e-9)


@pytest.mark.parametrize(
    ("backends", "groups", "most", "optimal"),
    [(1, False, 0.02, 28), (1, True, 0.10, 26), (2, False, 0.02, 27), (2, True, 0.10, 26)],
)
def test_the_gap_to_the_oracle_is_small(backends: int, groups: bool, most: float, optimal: int):
    chance = random.Random(1)
    gaps = [gap(random_contest(chance, 7, backends, 8 * US, groups)) for _ in range(30)]
    assert all(-1e-9 < each <= most for each in gaps)
    assert sum(each < 1e-9 for each in gaps) >= optimal


@pytest.mark.slow
@pytest.mark.parametrize("backends", [1, 2])
@pytest.mark.parametrize("groups", [False, True])
def test_the_gap_to_the_oracle_is_small_at_fourteen_ops(backends: int, groups: bool):
    chance = random.Random(3)
    gaps = [gap(random_contest(chance, 14, backends, 8 * US, groups)) for _ in range(10)]
    assert all(-1e-9 < each <= 0.10 for each in gaps)
    assert sum(each < 1e-9 for each in gaps) >= 8


def test_the_oracle_is_never_undercut():
    chance = random.Random(2)
    for _ in range(20):
        contest = random_contest(chance, 6, 2, 5 * US, True)
        assert oracle(contest, 1.0) <= cost_of(contest) * (1 + 1e-9)


def test_an_island_that_does_not_pay_is_dropped_with_both_figures():
    contest = chain(
        "abcdefg",
        {"": dict.fromkeys("abcdefg", 20.0), "x": {"a": 1.0, "b": 1.0, "c": 1.0, "f": 18.8}},
        launch=10.0,
        border=2.0,
    )
    found = settle(contest)
    assert [d.ops for d in found.delegations] == [("a", "b", "c")]
    (loss,) = found.losses
    assert (loss.op, loss.reason.code) == ("f", Code.TOO_SMALL)
    assert "saves 1.2 us of compute" in loss.reason.detail
    assert "costs 14.0 us of border and launch" in loss.reason.detail
    assert len(settle(replace(contest, mode="priority")).delegations) == 2


def test_an_op_that_is_slower_there_is_taken_where_it_joins_two_delegates():
    costs = {"": dict.fromkeys("abc", 20.0), "x": {"a": 1.0, "b": 30.0, "c": 1.0}}
    joined = settle(chain("abc", costs, launch=10.0, border=2.0))
    assert [d.ops for d in joined.delegations] == [("a", "b", "c")]
    apart = settle(chain("abc", costs, launch=1.0, border=2.0))
    assert [d.ops for d in apart.delegations] == [("a",), ("c",)]


def test_the_cheaper_backend_wins_against_the_order_with_both_figures():
    contest = chain(
        "abc",
        {"": dict.fromkeys("abc", 50.0), "x": dict.fromkeys("abc", 20.0), "y": {"b": 1.0}},
        launch=1.0,
        border=1.0,
    )
    found = settle(contest)
    assert [d.backend for d in found.delegations] == ["x", "y", "x"]
    (loss,) = found.losses
    assert (loss.partitioner, loss.op, loss.reason.code) == ("px", "b", Code.OUTBID)
    assert re.search(
        r"y 6\.0 us \(1\.0 us of compute, 5\.0 us .*\), x 20\.0 us", loss.reason.detail
    )


def test_a_value_that_several_ops_of_a_delegate_read_crosses_once():
    fact = TensorFact(shape=(1,), dtype="float32", nbytes=1000)
    ops = (
        Op(id="a", target="aten.op.default", outputs=(fact,)),
        Op(id="b", target="aten.op.default", inputs=("a",), outputs=(fact,)),
        Op(id="c", target="aten.op.default", inputs=("a", "b"), outputs=(fact,)),
    )
    graph = OpGraph(ops=ops, outputs=("c",))
    own = replace(rates(border=US), border_bytes_per_second=1e9)
    contest = Contest(
        graph=graph,
        claims=(Claim(partitioner="p", backend="x", ops=frozenset("bc"), divisible=True),),
        order=("p",),
    )
    costs = Costs(fallback=own, backends={"x": own}, given={})
    (delegate,) = predicted(graph, settle(contest), costs).delegates
    assert delegate.border == pytest.approx(2 * (1 * US + 1000 / 1e9))


def test_ops_go_to_the_later_delegate_where_fewer_values_cross():
    def op(id: str, *inputs: str, nbytes: int = 0) -> Op:
        fact = TensorFact(shape=(1,), dtype="float32", nbytes=nbytes)
        return Op(id=id, target="aten.op.default", inputs=inputs, outputs=(fact,))

    graph = OpGraph(  # b may go with a or with d; what it makes is large, and d reads it
        ops=(op("a"), op("b", "a", nbytes=5000), op("c", "a"), op("d", "b", "c")), outputs=("d",)
    )
    own = replace(rates(), border_bytes_per_second=1e9)
    table = {(name, op): 1 * US for name in ("", "x") for op in "abcd"}
    table |= {("", op): 50 * US for op in "abd"}
    contest = Contest(
        graph=graph,
        claims=tuple(
            Claim(partitioner="p", backend="x", ops=frozenset((op,))) for op in ("a", "b", "d")
        ),
        order=("p",),
        mode="cost",
        costs=Costs(fallback=own, backends={"x": own}, given=table),
    )
    assert [d.ops for d in settle(contest).delegations] == [("a",), ("b", "d")]
    priority = settle(replace(contest, mode="priority"))
    assert [d.ops for d in priority.delegations] == [("a", "b"), ("d",)]


def test_a_wanted_op_is_taken_at_any_price():
    costs = {"": dict.fromkeys("abc", 20.0), "x": {"b": 19.0}}
    contest = chain("abc", costs, launch=100.0, border=2.0)
    assert settle(contest).delegations == ()
    (delegation,) = settle(replace(contest, wanted=frozenset("b"))).delegations
    assert delegation.ops == ("b",)


def test_costs_must_be_there():
    contest = chain("ab", {"": {"a": 1.0, "b": 1.0}, "x": {"a": 1.0}}, 1.0, 1.0)
    with pytest.raises(ConfigError, match="needs costs"):
        settle(replace(contest, costs=None))
    assert contest.costs is not None
    with pytest.raises(ConfigError, match="no rates for x"):
        settle(replace(contest, costs=replace(contest.costs, backends={})))
