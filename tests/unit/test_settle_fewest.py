"""How many delegates: never more than needed for one backend, few for several."""

from __future__ import annotations

import random
from itertools import count

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cede.settle import settle
from cede.types import Claim, Contest, Op, OpGraph


def program(feeds: list[list[int]]) -> OpGraph:
    return OpGraph(
        ops=tuple(
            Op(id=f"o{i}", target="aten.op", inputs=tuple(f"o{p}" for p in producers))
            for i, producers in enumerate(feeds)
        )
    )


def claim(name: str, *ops: int) -> Claim:
    return Claim(partitioner=name, backend=name, ops=frozenset(f"o{op}" for op in ops))


def random_feeds(chance: random.Random, size: int) -> list[list[int]]:
    return [
        sorted(chance.sample(range(max(0, i - 6), i), min(i, chance.choice((0, 1, 1, 2, 2, 3)))))
        for i in range(size)
    ]


def legal(feeds: list[list[int]], of: list[int]) -> bool:
    """Whether the classes of `of` have an order."""
    needs = {c: {of[p] for i in range(len(of)) if of[i] == c for p in feeds[i]} - {c} for c in of}
    while free := [c for c, left in needs.items() if not left & needs.keys()]:
        for c in free:
            del needs[c]
    return not needs


def divisions(units: int, most: int, given: tuple[int, ...] = ()):
    """All ways to sort units into at most `most` classes."""
    if len(given) == units:
        yield given
        return
    for group in range(min(max(given, default=-1) + 2, most)):
        yield from divisions(units, most, (*given, group))


@st.composite
def one_backend(draw):
    feeds: list[list[int]] = []
    for i in range(draw(st.integers(2, 8))):
        mask = draw(st.integers(0, 2 ** min(i, 4) - 1))
        feeds.append([i - 1 - bit for bit in range(4) if mask >> bit & 1])
    left = list(range(len(feeds)))
    units = []
    while left:
        first = left.pop(0)
        unit = [first]
        if left and draw(st.integers(0, 3)) == 0:
            unit.append(left.pop(draw(st.integers(0, min(2, len(left) - 1)))))
        if draw(st.integers(0, 3)):
            units.append(unit)
    return feeds, units


@settings(max_examples=600, deadline=None)
@given(one_backend())
def test_one_backend_gets_the_fewest_delegates_that_any_legal_partitioning_has(case):
    feeds, claimed = case
    found = settle(
        Contest(
            graph=program(feeds),
            claims=tuple(claim("a", *unit) for unit in claimed),
            order=("a",),
        )
    )
    lost = {loss.op for loss in found.losses}
    units = [unit for unit in claimed if f"o{unit[0]}" not in lost]
    assert {op for d in found.delegations for op in d.ops} == {f"o{i}" for u in units for i in u}
    fewer = len(found.delegations) - 1
    for way in divisions(len(units), fewer) if fewer > 0 else ():
        numbers = count(len(feeds))
        group = {op: own for unit, own in zip(units, way, strict=True) for op in unit}
        assert not legal(feeds, [group.get(op, next(numbers)) for op in range(len(feeds))]), way


def fewest_runs(feeds: list[list[int]], keys: list[int]) -> int:
    """The optimum, by search over the sets of ops that are done."""

    def close(done: frozenset[int], key: int) -> frozenset[int]:
        grown = set(done)
        for op, producers in enumerate(feeds):
            if keys[op] == key and grown.issuperset(producers):
                grown.add(op)
        return frozenset(grown)

    states, runs = {close(frozenset(), -1)}, 0
    while not any(len(state) == len(feeds) for state in states):
        grown = {close(close(state, key), -1) for state in states for key in set(keys) - {-1}}
        states = {state for state in grown if not any(state < other for other in grown)}
        runs += 1
    return runs


@pytest.mark.parametrize(("backends", "size"), [(2, 14), (3, 16), (4, 16)])
def test_several_backends_come_within_a_hundredth_of_the_optimum(backends: int, size: int):
    chance = random.Random(7)
    ours = optimum = 0
    for _ in range(400):
        feeds = random_feeds(chance, size)
        keys = [chance.choice((-1, *range(backends))) for _ in feeds]
        names = tuple("abcd"[:backends])
        claims = tuple(claim(names[key], op) for op, key in enumerate(keys) if key >= 0)
        found = settle(Contest(graph=program(feeds), claims=claims, order=names))
        assert sum(len(d.ops) for d in found.delegations) == len(claims)
        best = fewest_runs(feeds, keys)
        assert len(found.delegations) >= best
        ours, optimum = ours + len(found.delegations), optimum + best
    assert ours <= 1.01 * optimum
