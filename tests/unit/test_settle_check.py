"""`check_settlement` names what is wrong with a plan from elsewhere; large graphs settle."""

from __future__ import annotations

import random

import pytest

from cede.settle import check_settlement, settle
from cede.types import Claim, Code, Contest, Delegation, Op, OpGraph, Part, Settlement


def op(name: str, *reads: str, target: str = "aten.op", **facts) -> Op:
    return Op(id=name, target=target, inputs=reads, **facts)


GRAPH = OpGraph(
    ops=(
        op("a"),
        op("z", "a"),
        op("b", "z"),
        op("y", "a"),
        op("pair", "b"),
        op("left", "pair", target="getitem"),
        op("t/u", scope="t"),
        op("f/v", scope="f"),
        op("if", "a", target="cond", branches=("t", "f")),
    )
)


def check(*delegations: str, ids: tuple[str, ...] = ()) -> list[str]:
    return check_settlement(
        GRAPH,
        Settlement(
            delegations=tuple(
                Delegation(
                    id=ids[i] if ids else f"d{i}",
                    backend="x",
                    parts=(Part(partitioner="p", ops=tuple(ops.split())),),
                )
                for i, ops in enumerate(delegations)
            )
        ),
    )


@pytest.mark.parametrize(
    ("delegations", "sentence"),
    [
        (["a nope"], "d0 names 'nope', which is no op of this graph"),
        (["a a"], "d0 names a twice"),
        (["a", "y a"], "a is in d0 and in d1; leave it in one"),
        ([""], "d0 has no ops; remove it"),
        (["a b"], "d0 is not convex: a -> z -> b"),
        (["a t/u"], "d0 spans scopes: a and t/u are in different branches"),
        (["t/u f/v"], "d0 spans scopes: t/u and f/v are in different branches"),
        (["if t/u"], "d0 has the control-flow op if without f/v of its branches"),
        (["pair"], "getitem left is in no delegation, its producer pair in d0; they go together"),
        (["left"], "getitem left is in d0, its producer pair in no delegation; they go together"),
    ],
)
def test_each_fault_is_named(delegations: list[str], sentence: str):
    found = check(*delegations)
    assert len(found) == 1
    assert found[0].startswith(sentence)


def test_several_faults_are_all_named():
    found = check("a nope", "a", "z b gone")
    assert len(found) == 3


def test_a_cycle_of_delegations_names_them_and_the_ops():
    graph = OpGraph(ops=(op("a1"), op("b1"), op("a2", "b1"), op("b2", "a1")))
    parts = [("a1", "a2"), ("b1", "b2")]
    found = check_settlement(
        graph,
        Settlement(
            delegations=tuple(
                Delegation(id=name, backend=name, parts=(Part(partitioner=name, ops=ops),))
                for name, ops in zip("pq", parts, strict=True)
            )
        ),
    )
    assert len(found) == 1
    assert found[0].startswith("p, q depend on one another: a1 -> b2 ~ b1 -> a2")


def test_an_id_given_twice():
    assert check("a", "y", ids=("d0", "d0")) == [
        "two delegations are called d0; give each its own id"
    ]


def test_valid_settlements_have_no_faults():
    assert check() == []
    assert check("a z b y pair left if t/u f/v") == []
    assert check("a y", "z b", "t/u", "f/v") == []


def test_a_deep_chain_needs_no_recursion():
    size = 200_000
    graph = OpGraph(ops=tuple(op(f"o{i}", f"o{i - 1}") for i in range(size)))
    pair = frozenset({"o10", f"o{size - 10}"})  # not convex: the path is nearly the whole chain
    found = settle(
        Contest(
            graph=graph,
            claims=(
                Claim(partitioner="p", backend="p", ops=pair),
                Claim(
                    partitioner="q",
                    backend="q",
                    ops=frozenset(f"o{i}" for i in range(size) if i % 1000),
                    divisible=True,
                ),
            ),
            order=("p", "q"),
        )
    )
    assert len(found.delegations) == size // 1000
    assert [loss.op for loss in found.losses] == ["o10", f"o{size - 10}"]
    assert len(found.losses[0].reason.detail) < 500
    assert check_settlement(graph, found) == []


@pytest.mark.parametrize("near", [8, 60, 2000])
def test_many_claims_that_tangle(near: int):
    size, chance = 2000, random.Random(near)
    reads = [chance.sample(range(max(0, i - 9), i), min(i, 2)) for i in range(size)]
    graph = OpGraph(ops=tuple(op(f"o{i}", *(f"o{p}" for p in of)) for i, of in enumerate(reads)))
    claims = tuple(
        Claim(
            partitioner=name,
            backend=name,
            ops=frozenset(f"o{min(size - 1, i + chance.randrange(near))}" for _ in range(3)),
        )
        for i in range(size)
        for name in [chance.choice("pq")]
    )
    found = settle(Contest(graph=graph, claims=claims, order=("p", "q")))
    assert check_settlement(graph, found) == []
    codes = {loss.reason.code for loss in found.losses}
    assert codes >= {Code.NOT_CONVEX, Code.OUTBID}
    assert found.delegations
