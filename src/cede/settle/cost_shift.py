"""Ops from one delegate to another of the same taker, where that makes borders cheaper.

Levels give the fewest delegates, and put each op into the first that it may go to; which values
cross is not looked at.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from cede.settle.nodes import kahn, quotient
from cede.types import Limits

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from cede.settle.cost_field import Field
    from cede.settle.hold import Hold
    from cede.types import Contest

LEAST = 1e-15
"""Seconds that a move must save."""

CHECKS = 20_000
"""Ops that all checks for cycles together may look at, roughly."""


def shifted(contest: Contest, field: Field, held: Hold, groups: list[int]) -> list[int]:
    """Per op its delegate after all moves that help.

    Programs with control flow, and backends with limits or that take connected delegates only,
    stay as they are.
    """
    if field.index.inside or contest.overall != Limits():
        return groups
    free = {
        key
        for key, (name, _) in enumerate(held.takers)
        if name not in contest.connected and contest.limits.get(name, Limits()) == Limits()
    }
    units: dict[int, list[int]] = {}
    for op, group in enumerate(groups):
        if group >= 0 and held.key[op] in free:
            units.setdefault(held.unit(op), []).append(op)
    made, left = list(groups), max(8, CHECKS // max(1, field.index.size))
    for unit in units:
        for target, ops in _moves(field, held, units, made, unit):
            if left <= 0:
                return made
            left -= 1
            moved = list(made)
            for op in ops:
                moved[op] = target
            if _acyclic(field, moved):
                made = moved
                break
    return made


def _moves(
    field: Field, held: Hold, units: Mapping[int, list[int]], groups: list[int], unit: int
) -> Iterator[tuple[int, list[int]]]:
    """Moves of a unit that save seconds, if they make no cycle: the delegate, and the ops."""
    for ops in _parties(field, held, units, groups, unit):
        for target in _near(field, held, groups, ops):
            if _gain(field, held, groups, ops, target) > LEAST:
                yield target, ops


def _parties(
    field: Field, held: Hold, units: Mapping[int, list[int]], groups: list[int], unit: int
) -> Iterator[list[int]]:
    """A unit, it with all that depends on it in its delegate, and with all that it depends on."""
    alone = units[unit]
    yield alone
    for forwards in (True, False):
        found, todo = {unit}, [unit]
        while todo:
            for op in units[todo.pop()]:
                for number in field.touching[op]:
                    maker, readers = field.ends[number]
                    ends = readers if forwards and maker == op else [] if forwards else [maker]
                    for end in ends:
                        if end < 0 or groups[end] != groups[op]:
                            continue
                        other = held.unit(end)
                        if other not in found:
                            found.add(other)
                            todo.append(other)
        if len(found) > 1:
            yield sorted(op for other in found for op in units[other])


def _near(field: Field, held: Hold, groups: Sequence[int], ops: list[int]) -> list[int]:
    """Other delegates of the same taker that share a value with these ops."""
    key, own = held.key[ops[0]], groups[ops[0]]
    ends = (end for op in ops for number in field.touching[op] for end in _around(field, number))
    return sorted({groups[end] for end in ends if held.key[end] == key} - {own, -1})


def _around(field: Field, number: int) -> list[int]:
    maker, readers = field.ends[number]
    return [maker, *readers] if maker >= 0 else readers


def _gain(field: Field, held: Hold, groups: list[int], ops: list[int], target: int) -> float:
    """Seconds that moving these ops saves at borders."""
    numbers = list(dict.fromkeys(number for op in ops for number in field.touching[op]))
    own = groups[ops[0]]
    before = sum(_price(field, held, number, groups) for number in numbers)
    for op in ops:
        groups[op] = target
    after = sum(_price(field, held, number, groups) for number in numbers)
    for op in ops:
        groups[op] = own
    return before - after


def _price(field: Field, held: Hold, number: int, groups: list[int]) -> float:
    maker, readers = field.ends[number]
    own = groups[maker] if maker >= 0 else -1
    price = 0.0
    others: set[int] = set()
    for reader in readers:
        group = groups[reader]
        if group == own:
            continue
        if group >= 0 and group not in others:
            price += field.border(held.takers[held.key[reader]], number)
        others.add(group)
    if own >= 0 and (others or field.leaving[number]):
        price += field.border(held.takers[held.key[maker]], number)
    return price


def _acyclic(field: Field, groups: list[int]) -> bool:
    count = max(groups) + 1
    of = list(groups)
    for op, group in enumerate(of):
        if group < 0:
            of[op] = count
            count += 1
    return len(kahn(quotient(of, count, field.index.feeds))) == count
