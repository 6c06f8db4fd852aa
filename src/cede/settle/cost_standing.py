"""What labels come to: the delegates that the rounds make of them, and their seconds."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from cede.settle.cost_shift import shifted
from cede.settle.rounds import play
from cede.types import Code, Reason

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from cede.settle.cost_field import Field, Labels
    from cede.settle.hold import Hold
    from cede.types import Contest

BARRED = Reason(code=Code.OUTBID, detail="it would cost more")
"""The reason of pieces that cost mode leaves out, until it is known where their ops went."""


@dataclass(frozen=True, slots=True)
class Standing:
    """A valid settlement.

    Attributes:
        held: who has which op.
        groups: per op its delegate, -1 for none.
        out: pieces that left the contest, with why.
        labels: per op its taker.
        seconds: what all of it costs.
    """

    held: Hold
    groups: list[int]
    out: Mapping[int, Reason]
    labels: Labels
    seconds: float


def stand(contest: Contest, field: Field, labels: Labels | None) -> Standing:
    """Play the rounds with those pieces that labels choose, all of them with None.

    Where some of these only tie ops that could go apart, without them as well: what is cheaper
    stands.
    """
    if labels is None:
        return _played(contest, field, None)
    chosen = field.chosen(labels)
    found = _played(contest, field, chosen)
    if (needed := field.needed(chosen)) != chosen:
        untied = _played(contest, field, needed)
        if untied.seconds < found.seconds:
            return untied
    return found


def _played(contest: Contest, field: Field, pieces: Sequence[bool] | None) -> Standing:
    barred = {number: BARRED for number, taken in enumerate(pieces or ()) if not taken}
    held, groups, out = play(contest, field.index, field.pieces, barred)
    if max(groups, default=-1) > 0:
        groups = shifted(contest, field, held, groups)
    keys = [key if group >= 0 else -1 for key, group in zip(held.key, groups, strict=True)]
    made = field.labels(held.takers, keys)
    return Standing(held, groups, out, made, total(field, made, groups))


def total(field: Field, labels: Labels, groups: list[int]) -> float:
    """Seconds of compute, of borders and of launches. O(V+E)."""
    seconds = field.seconds
    taker_of: dict[int, int] = {}
    found = 0.0
    for op, label in enumerate(labels):
        found += seconds[label][op]
        if label >= 0:
            taker_of[groups[op]] = label
    found += sum(field.launch(taker) for taker in taker_of.values())
    for number, (maker, readers) in enumerate(field.ends):
        own = groups[maker] if maker >= 0 else -1
        others = {groups[reader] for reader in readers}
        others.discard(own)
        if own >= 0 and (others or field.leaving[number]):
            found += field.prices[taker_of[own]][number]
        for group in others:
            if group >= 0:
                found += field.prices[taker_of[group]][number]
    return found


def without_losers(field: Field, standing: Standing) -> Labels:
    """Labels without the delegates that cost more than they save, dropped one after the other.

    Dropping a delegate leaves the others valid, so what is saved is known without new rounds.
    """
    labels, groups = list(standing.labels), list(standing.groups)
    ops_of: dict[int, list[int]] = {}
    for op, group in enumerate(groups):
        if group >= 0 and op not in field.index.host:
            ops_of.setdefault(group, []).append(op)
    taker_of = {group: labels[ops[0]] for group, ops in ops_of.items()}
    left, dropping = sorted(ops_of), True
    while dropping:
        dropping = False
        for group in list(left):
            if _saved(field, ops_of[group], groups, taker_of) > 0:
                dropping = True
                left.remove(group)
                for op in ops_of[group]:
                    labels[op] = groups[op] = -1
    return labels


def _saved(field: Field, ops: list[int], groups: list[int], taker_of: dict[int, int]) -> float:
    """Seconds that go, less those that come, once a delegate is dropped."""
    group = groups[ops[0]]
    taker = taker_of[group]
    saved = field.launch(taker)
    for op in ops:
        saved += field.seconds[taker][op] - field.seconds[-1][op]
    for number in dict.fromkeys(number for op in ops for number in field.touching[op]):
        maker, readers = field.ends[number]
        others = {groups[reader] for reader in readers}
        if maker < 0 or groups[maker] != group:
            saved += field.prices[taker][number] * (group in others)
        elif others != {group} or field.leaving[number]:
            saved += field.prices[taker][number]
    return saved
