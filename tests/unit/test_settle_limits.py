"""Bounds on delegates: what is dropped, what is split, and what must hold of it."""

from __future__ import annotations

from dataclasses import replace

from hypothesis import assume, given, settings
from hypothesis import strategies as st
from tests.unit.test_settle_properties import contests
from tests.unit.test_settle_rules import claim, lost, program, run, taken, words

from cede.settle import check_settlement, settle
from cede.types import (
    Claim,
    Code,
    Contest,
    GraphInput,
    InputKind,
    Limits,
    OpGraph,
    Settlement,
    TensorFact,
)

FLOAT = TensorFact(shape=(4,), dtype="float32", nbytes=16)


def sized(text: str, **weights: str) -> OpGraph:
    """A program whose ops make 16 bytes each and read a weight of 100 bytes, by op."""
    graph = program(text)
    inputs = tuple(
        GraphInput(
            id=f"p_{name}",
            kind=InputKind.PARAMETER,
            target=name,
            tensor=TensorFact(shape=(25,), dtype="float32", nbytes=100),
        )
        for name in dict.fromkeys(weights.values())
    )
    ops = tuple(
        replace(
            op,
            inputs=(*op.inputs, *(f"p_{w}" for w in [weights.get(op.id)] if w)),
            outputs=(FLOAT,),
        )
        for op in graph.ops
    )
    return OpGraph(inputs=inputs, ops=ops)


def bound(graph: OpGraph, *claims: Claim, connected: bool = False, **limits: int) -> Settlement:
    return settle(
        Contest(
            graph=graph,
            claims=claims,
            order=("p",),
            limits={"p": Limits(**limits)},
            connected=frozenset({"p"}) if connected else frozenset(),
        )
    )


def test_a_delegate_beyond_max_ops_is_split_evenly_and_loses_nothing():
    found = bound(program("a b<a c<b d<c e<d"), claim("p", "a b c d e", divisible=True), max_ops=4)
    assert taken(found) == ["p: a b c", "p: d e"]
    assert found.losses == ()


def test_a_split_keeps_getitems_with_their_producer_and_does_not_count_them():
    found = bound(program("a g.<a h.<a b<g,h"), claim("p", "a g h b", divisible=True), max_ops=1)
    assert taken(found) == ["p: a g h", "p: b"]


def test_a_split_keeps_claims_whole():
    found = bound(program("a b<a c<b d<c"), claim("p", "b c"), claim("p", "a"), claim("p", "d"),
                  max_ops=2)  # fmt: skip
    assert taken(found) == ["p: a", "p: b c", "p: d"]


def test_a_claim_that_is_too_big_by_itself_is_dropped_with_both_figures():
    found = bound(program("a b<a c<b d<c"), claim("p", "b c d"), claim("p", "a"), max_ops=2)
    assert taken(found) == ["p: a"]
    assert lost(found) == {f"p {op}": Code.TOO_BIG for op in "bcd"}
    assert words(found, "c") == (
        "the delegate would have 3 ops and it can't be split further, max_ops of p is 2"
    )


def test_max_bytes_counts_values_and_each_constant_once():
    graph = sized("a b<a c<b", a="w", b="w", c="v")
    everything = claim("p", "a b c", divisible=True)
    assert len(bound(graph, everything, max_bytes=248).delegations) == 1
    assert taken(bound(graph, everything, max_bytes=247)) == ["p: a b", "p: c"]
    assert taken(bound(graph, everything, max_bytes=131)) == ["p: a", "p: b", "p: c"]
    found = bound(graph, everything, max_bytes=115)
    assert words(found, "a") == (
        "the delegate would have 116 bytes and it can't be split further, max_bytes of p is 115"
    )


def test_min_bytes_drops_what_is_too_small():
    graph = sized("a y<a b<y", a="w")
    found = bound(graph, claim("p", "a b", divisible=True), min_bytes=17)
    assert taken(found) == ["p: a"]
    assert lost(found) == {"p b": Code.TOO_SMALL}
    assert words(found, "b") == "the delegate would have 16 bytes, min_bytes of p is 17"


def test_the_pieces_of_a_split_are_connected_where_the_backend_wants_it():
    graph = program("a b c<a d<b e<c,d")
    found = bound(graph, claim("p", "a b c d e", divisible=True), connected=True, max_ops=4)
    assert taken(found) == ["p: a c", "p: b", "p: d e"]
    assert found.losses == ()


def test_overall_bounds_are_about_the_delegates_of_all_backends():
    claims = (claim("p", "a b", divisible=True), claim("q", "c"), claim("q", "d"))
    text = "a b<a y<b c<y z<c d<z"
    assert taken(run(text, *claims, overall=Limits(min_ops=2))) == ["p: a b"]
    found = run(text, *claims, overall=Limits(max_delegates=2))
    assert taken(found) == ["p: a b", "q: c"]
    assert words(found, "d") == (
        "max_delegates of all backends is 2: this one has 1 op, the smallest kept has 1"
    )


def test_what_is_too_big_for_one_backend_is_offered_to_the_next():
    found = run("a", claim("p", "a"), claim("q", "a"), limits={"p": Limits(max_ops=0)})
    assert taken(found) == ["q: a"]
    assert lost(found) == {"p a": Code.TOO_BIG}


@st.composite
def bounded(draw) -> Contest:
    contest = draw(contests())
    bound = st.one_of(st.none(), st.integers(0, 4))
    return replace(
        contest,
        limits={
            f"b{x}": Limits(min_ops=draw(bound), max_ops=draw(bound), max_delegates=draw(bound))
            for x in "abcd"
        },
        overall=Limits(min_ops=draw(bound), max_delegates=draw(bound)),
    )


@settings(max_examples=500, deadline=None)
@given(bounded())
def test_bounds_hold_and_every_claimed_op_is_in_one_place(contest: Contest):
    graph, found = contest.graph, settle(contest)
    assert check_settlement(graph, found) == []
    for d in found.delegations:
        size = sum(graph.op(op).target != "getitem" for op in d.ops)
        own = contest.limits[d.backend]
        assert own.max_ops is None or size <= own.max_ops
        assert size >= max(own.min_ops or 0, contest.overall.min_ops or 0)
    most = contest.overall.max_delegates
    assert most is None or len(found.delegations) <= most
    claimed = sorted({(op, c.partitioner) for c in contest.claims for op in c.ops})
    parts = [(op, p.partitioner) for d in found.delegations for p in d.parts for op in p.ops]
    losses = [(loss.op, loss.partitioner) for loss in found.losses]
    assert sorted([pair for pair in parts if pair in claimed] + losses) == claimed


@settings(max_examples=300, deadline=None)
@given(contests(limited=False), st.integers(1, 4))
def test_a_split_of_ops_that_may_go_apart_loses_nothing(contest: Contest, most: int):
    assume(not any(op.branches for op in contest.graph.ops))
    claims = tuple(replace(c, divisible=True) for c in contest.claims)
    contest = replace(contest, claims=claims)
    limits = {f"b{x}": Limits(max_ops=most) for x in "abcd"}
    assert settle(replace(contest, limits=limits)).losses == settle(contest).losses
