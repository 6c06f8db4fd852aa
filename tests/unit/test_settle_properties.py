"""Whatever the graph and the claims: what must hold of every settlement."""

from __future__ import annotations

import random
from dataclasses import replace
from graphlib import TopologicalSorter

from hypothesis import given, settings
from hypothesis import strategies as st

from cede.settle import check_settlement, settle
from cede.types import Claim, Code, Contest, Limits, Op, OpGraph, Settlement

BACKENDS = ("ba", "bb", "bc", "bd")


def grow(draw, ops: list[Op], size: int, scope: str = "", depth: int = 0) -> None:
    own: list[str] = []
    for _ in range(size):
        kind = draw(st.integers(0, 9))
        mask = draw(st.integers(0, 2 ** min(len(own), 5) - 1))
        inputs = tuple(op for bit, op in enumerate(reversed(own)) if mask >> bit & 1) or ("x",)
        branches: tuple[str, ...] = ()
        if kind == 9 and depth < 2:
            branches = tuple(f"{scope}{len(ops)}{side}/" for side in "tf")
            for branch in branches:
                grow(draw, ops, draw(st.integers(0, 2)), branch, depth + 1)
        target = "cond" if branches else "getitem" if kind == 8 and own else "aten.op"
        if target == "getitem":
            inputs = (own[-1 - mask % len(own)],)
        own.append(f"{scope}o{len(ops)}")
        ops.append(Op(id=own[-1], target=target, inputs=inputs, scope=scope, branches=branches))


@st.composite
def contests(draw, backends: int = 4, limited: bool = True) -> Contest:
    ops: list[Op] = []
    grow(draw, ops, draw(st.integers(1, 10)))
    names = ["pa", "pb", "pc", "pd", "pe"][: draw(st.integers(1, 5))]
    homes = {name: BACKENDS[draw(st.integers(0, backends - 1))] for name in names}
    claims = []
    for _ in range(draw(st.integers(1, 8))):
        name = names[draw(st.integers(0, len(names) - 1))]
        mask = draw(st.integers(1, 2 ** len(ops) - 1))
        shape = draw(st.integers(0, 7))
        if shape < 4:  # few ops, near one another
            mask &= 0b111 << (mask % len(ops)) or 1
        chosen = frozenset(op.id for bit, op in enumerate(ops) if mask >> bit & 1)
        claims.append(
            Claim(
                partitioner=name,
                backend=homes[name],
                ops=chosen,
                divisible=shape % 2 == 0,
                specs=(("key", b"1"),) if shape == 7 else (),
            )
        )
    limits = {}
    connected = frozenset()
    if limited and draw(st.booleans()):
        bound = st.one_of(st.none(), st.integers(0, 3))
        limits = {b: Limits(min_ops=draw(bound), max_delegates=draw(bound)) for b in BACKENDS}
        connected = frozenset(draw(st.sets(st.sampled_from(BACKENDS))))
    return Contest(
        graph=OpGraph(ops=tuple(ops)),
        claims=tuple(claims),
        order=tuple(names),
        limits=limits,
        connected=connected,
    )


def acyclic(graph: OpGraph, settlement: Settlement) -> bool:
    home = {op: d.id for d in settlement.delegations for op in d.ops}
    sorter: TopologicalSorter[str] = TopologicalSorter()
    for op in graph.ops:
        own = home.get(op.id, op.id)
        sorter.add(own, *(home.get(u, u) for u in op.inputs if home.get(u, u) != own))
    try:
        return bool(list(sorter.static_order()))
    except ValueError:
        return False


@settings(max_examples=1500, deadline=None)
@given(contests())
def test_delegations_are_disjoint_convex_acyclic_and_complete(contest: Contest):
    graph, found = contest.graph, settle(contest)
    every = [op for d in found.delegations for op in d.ops]
    assert len(every) == len(set(every))
    assert all(graph.is_convex(d.ops) for d in found.delegations)
    assert acyclic(graph, found)
    assert check_settlement(graph, found) == []
    assert [d.id for d in found.delegations] == [f"d{i}" for i in range(len(found.delegations))]
    for d in found.delegations:
        ranks = [contest.order.index(part.partitioner) for part in d.parts]
        assert ranks == sorted(set(ranks))
        for part in d.parts:
            places = [graph.position(op) for op in part.ops]
            assert places == sorted(places)


@settings(max_examples=1000, deadline=None)
@given(contests())
def test_each_claimed_op_is_in_one_part_or_one_loss_of_its_partitioner(contest: Contest):
    found = settle(contest)
    claimed = sorted({(op, c.partitioner) for c in contest.claims for op in c.ops})
    parts = [(op, p.partitioner) for d in found.delegations for p in d.parts for op in p.ops]
    losses = [(loss.op, loss.partitioner) for loss in found.losses]
    unasked = [pair for pair in parts if pair not in claimed]
    assert all(contest.graph.op(op).target == "getitem" for op, _ in unasked)
    assert sorted([pair for pair in parts if pair in claimed] + losses) == claimed
    assert all(loss.reason.detail for loss in found.losses)


@settings(max_examples=1000, deadline=None)
@given(contests())
def test_a_claim_goes_whole_and_a_loser_lost_to_somebody(contest: Contest):
    graph, found = contest.graph, settle(contest)
    home = {op: (d, p.partitioner) for d in found.delegations for p in d.parts for op in p.ops}

    def core(claim: Claim) -> set[str]:
        return {op for op in claim.ops if graph.op(op).target != "getitem"}

    for op, (d, name) in home.items():
        if graph.op(op).target == "getitem":
            assert home[graph.op(op).inputs[0]] == (d, name)
            continue
        mine = [c for c in contest.claims if c.partitioner == name and op in c.ops]
        assert any((c.backend, c.specs) == (d.backend, d.specs) for c in mine)
        assert any(c.divisible or core(c) <= set(d.ops) for c in mine)
    for loss in found.losses:
        if loss.reason.code is Code.OUTBID and graph.op(loss.op).target != "getitem":
            lost = [c for c in contest.claims if loss.op in c.ops]
            lost = [c for c in lost if c.partitioner == loss.partitioner]
            taken = [op for c in lost for op in c.ops if op in home]
            assert taken, loss


@settings(max_examples=700, deadline=None)
@given(contests(), st.integers(0, 2**30))
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
    renamed = settle(replace(contest, graph=OpGraph(ops=ops), claims=tuple(claims)))
    found = settle(contest)
    assert renamed.delegations == tuple(
        replace(
            d,
            parts=tuple(replace(p, ops=tuple(new[op] for op in p.ops)) for p in d.parts),
        )
        for d in found.delegations
    )
    assert [(x.op, x.partitioner, x.backend, x.reason.code) for x in renamed.losses] == [
        (new[x.op], x.partitioner, x.backend, x.reason.code) for x in found.losses
    ]


@settings(max_examples=500, deadline=None)
@given(contests(limited=False))
def test_an_op_that_is_claimed_alone_by_one_partitioner_is_taken(contest: Contest):
    found = settle(contest)
    home = {op: d.backend for d in found.delegations for op in d.ops}
    for claim in contest.claims:
        if not claim.divisible and len(claim.ops) != 1:
            continue
        for op in claim.ops:
            rivals = [c for c in contest.claims if c is not claim and op in c.ops]
            if not rivals and contest.graph.op(op).target == "aten.op":
                assert home.get(op) == claim.backend


@settings(max_examples=300, deadline=None)
@given(contests())
def test_limits_and_connectedness_hold(contest: Contest):
    graph, found = contest.graph, settle(contest)
    for name, bounds in contest.limits.items():
        own = [d for d in found.delegations if d.backend == name]
        sizes = [sum(graph.op(op).target != "getitem" for op in d.ops) for d in own]
        assert all(size >= (bounds.min_ops or 0) for size in sizes)
        assert bounds.max_delegates is None or len(own) <= bounds.max_delegates
    for d in found.delegations:
        if d.backend in contest.connected:
            reached, todo = set(), [d.ops[0]]
            near = {op: set(graph.op(op).inputs) | set(graph.users(op)) for op in d.ops}
            for op in d.ops:  # a control-flow op holds its branches together
                for scope in graph.op(op).branches:
                    for inner in graph.scope(scope):
                        near[op].add(inner.id)
                        near[inner.id].add(op)
            while todo:
                op = todo.pop()
                if op in near and op not in reached:
                    reached.add(op)
                    todo.extend(near[op])
            assert reached == set(d.ops)
