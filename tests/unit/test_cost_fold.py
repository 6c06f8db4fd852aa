"""Repeated layers are solved once in cost mode, and that makes nothing worse."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given, settings

from cede.costs import predicted
from cede.settle import check_settlement, cost, settle
from cede.settle.cost_expand import expanded
from cede.settle.cost_field import Field
from cede.settle.cost_fold import ROUNDS, Fold, alike
from cede.settle.index import index_graph
from cede.settle.pieces import cut
from cede.types import Claim, Contest, Costs, Op, OpGraph, Rates, TensorFact

from .test_cost_settle import priced

US = 1e-6
LAYER = (  # op, what it reads, us on nobody / a / b
    ("norm", ("x",), 2.0, None, 3.0),
    ("up", ("norm",), 9.0, 2.0, 4.0),
    ("gate", ("norm",), 9.0, 2.0, 4.0),
    ("mul", ("up", "gate"), 3.0, 1.0, 0.5),
    ("down", ("mul",), 9.0, 2.0, None),
    ("add", ("x", "down"), 1.0, 0.8, 0.5),
)


def layered(layers: int, nbytes: int = 1000) -> Contest:
    """Equal layers in a row, for which neither backend takes all."""
    fact = TensorFact(shape=(), dtype="float32", nbytes=nbytes)
    ops, given, claims, x = [], {}, [], "input"
    for i in range(layers):
        for name, reads, *prices in LAYER:
            id = f"{name}{i}"
            inputs = tuple(x if used == "x" else f"{used}{i}" for used in reads)
            ops.append(Op(id=id, target=f"aten.{name}.default", inputs=inputs, outputs=(fact,)))
            for backend, price in zip(("", "a", "b"), prices, strict=True):
                if price is not None:
                    given[backend, id] = price * US
                    if backend:
                        claims.append(
                            Claim(partitioner=backend, backend=backend, ops=frozenset((id,)))
                        )
        x = f"add{i}"
    rates = Rates(
        flops_per_second=1e9, bytes_per_second=1e9, launch_seconds=1 * US,
        border_seconds=0.3 * US, border_bytes_per_second=1e9,
    )  # fmt: skip
    return Contest(
        graph=OpGraph(ops=tuple(ops), outputs=(x,)),
        claims=tuple(claims),
        order=("a", "b"),
        mode="cost",
        costs=Costs(fallback=rates, backends={"a": rates, "b": rates}, given=given),
    )


def ground(contest: Contest) -> Field:
    assert contest.costs is not None
    index = index_graph(contest.graph)
    return Field(index, cut(contest, index), contest.costs)


def test_copies_of_a_layer_are_alike_but_for_those_near_the_ends() -> None:
    field = ground(layered(100))
    of = alike(field)
    middle = slice(40 * len(LAYER), 41 * len(LAYER))
    for i in range(30, 60):
        assert of[i * len(LAYER) : (i + 1) * len(LAYER)] == of[middle]
    assert len(set(of)) <= 2 * ROUNDS * len(LAYER)
    assert of[0] != of[40 * len(LAYER)]
    up, gate = of[1], of[2]  # they differ in their names only
    assert up == gate


def test_ops_of_other_prices_are_not_alike() -> None:
    contest = layered(40)
    assert contest.costs is not None
    given = {**contest.costs.given, ("a", "mul20"): 7 * US}
    of = alike(ground(replace(contest, costs=replace(contest.costs, given=given))))
    assert of[20 * len(LAYER) + 3] != of[5 * len(LAYER) + 3]
    assert of[20 * len(LAYER) + 4] != of[5 * len(LAYER) + 4]  # it reads what that op makes


@pytest.mark.parametrize("share", [0.0, 0.5])
def test_a_cut_through_the_folded_graph_is_that_of_the_whole(share: float) -> None:
    field = ground(layered(60))
    fold = Fold(field, alike(field))
    assert len(fold.nothing()) < len(field.nothing()) / 2
    folded = fold.unfolded(expanded(fold, fold.nothing(), share))
    whole = expanded(field, field.nothing(), share)
    inner = slice(20 * len(LAYER), 40 * len(LAYER))
    assert folded[inner] == whole[inner]


def test_large_programs_are_settled_by_folding_as_well_as_without(monkeypatch) -> None:
    contest = layered(50)
    assert contest.costs is not None
    found = {}
    for large in (10, 10**9):
        monkeypatch.setattr(cost, "LARGE", large)
        settlement = settle(contest)
        assert check_settlement(contest.graph, settlement) == []
        found[large] = predicted(contest.graph, settlement, contest.costs).seconds
    assert found[10] == pytest.approx(found[10**9], rel=0.01)
    first = settle(replace(contest, mode="priority"))
    assert found[10] < predicted(contest.graph, first, contest.costs).seconds


@settings(max_examples=100, deadline=None)
@given(priced())
def test_folding_anything_leaves_a_settlement_no_dearer_than_priority(contest: Contest) -> None:
    assert contest.costs is not None
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(cost, "LARGE", 0)
        patched.setattr(cost, "WORTH", 1)
        settlement = settle(contest)
    assert check_settlement(contest.graph, settlement) == []
    first = settle(replace(contest, mode="priority"))
    mine, theirs = (predicted(contest.graph, s, contest.costs).seconds for s in (settlement, first))
    assert mine <= theirs * (1 + 1e-9)
