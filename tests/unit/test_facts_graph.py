"""Convex sets of ops, by hand and against brute force."""

from __future__ import annotations

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cede.types import Op, OpGraph


def graph(*edges: str) -> OpGraph:
    """Each "c: a b" is an op c that reads a and b."""
    rows = [row.partition(":") for row in edges]
    return OpGraph(
        ops=tuple(
            Op(id=name, target="aten.op", inputs=tuple(reads.split())) for name, _, reads in rows
        )
    )


CHAIN = graph("a: x", "b: a", "c: b", "d: a c")


@pytest.mark.parametrize(
    ("ops", "path"),
    [
        ("", ()),
        ("a", ()),
        ("a b", ()),
        ("a b c d", ()),
        ("a c", ("a", "b", "c")),
        ("a d", ("a", "b", "c", "d")),
        ("b d", ("b", "c", "d")),
        ("b c", ()),
        ("a b d", ("b", "c", "d")),
    ],
)
def test_paths_by_hand(ops: str, path: tuple[str, ...]) -> None:
    assert CHAIN.path_outside(ops.split()) == path
    assert CHAIN.is_convex(ops.split()) is (path == ())


def test_unconnected_ops_and_shared_inputs_are_convex() -> None:
    forked = graph("a: x", "b: x", "c: a b")
    assert forked.is_convex(["a", "b"])
    assert forked.users("x") == ("a", "b")


@st.composite
def random_graphs(draw: st.DrawFn) -> tuple[OpGraph, set[str]]:
    size = draw(st.integers(1, 9))
    ops = []
    for i in range(size):
        reads = draw(st.sets(st.integers(0, i - 1), max_size=3)) if i else set()
        ops.append(Op(id=f"o{i}", target="aten.op", inputs=tuple(f"o{j}" for j in sorted(reads))))
    chosen = draw(st.sets(st.sampled_from([op.id for op in ops])))
    return OpGraph(ops=tuple(ops)), chosen


def reachable(made: OpGraph, start: str) -> set[str]:
    found: set[str] = set()
    for user in made.users(start):
        found |= {user} | reachable(made, user)
    return found


@given(random_graphs())
def test_convex_against_brute_force(case: tuple[OpGraph, set[str]]) -> None:
    made, chosen = case
    after = {op.id: reachable(made, op.id) for op in made.ops}
    outside = [op.id for op in made.ops if op.id not in chosen]
    broken = any(
        middle in after[first] and last in after[middle]
        for first, last in itertools.permutations(chosen, 2)
        for middle in outside
    )
    path = made.path_outside(chosen)
    assert bool(path) is broken
    assert made.is_convex(chosen) is not broken
    if path:
        assert path[0] in chosen
        assert path[-1] in chosen
        assert len(path) > 2
        assert not set(path[1:-1]) & chosen
        for first, second in itertools.pairwise(path):
            assert first in made.op(second).inputs
