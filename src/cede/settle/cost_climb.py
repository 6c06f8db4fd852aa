"""Hill-climbing: small changes to a settlement as long as one makes it cheaper.

Every change is played through the rounds, so that launches, borders between delegates of one
backend, limits and cycles count as they are. The first change that helps is taken and the next
ones go on from there; it ends when none of them helps, or with the effort.
"""

from __future__ import annotations

from itertools import chain
from typing import TYPE_CHECKING

from cede.settle.cost_standing import stand, without_losers

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from cede.settle.cost_field import Field, Labels
    from cede.settle.cost_standing import Standing
    from cede.types import Contest

EFFORT = 50_000
"""Ops that all rounds of all tries together may look at, roughly; large graphs gain little."""

FINE = 64
"""Up to so many ops, pairs of changes are tried as well, from every start, with more effort."""

FINE_EFFORT = 400_000
"""As `EFFORT`, on such a small graph."""

LEAST = 1e-12
"""Part of the seconds by which a change must help: less is rounding."""


class Search:
    """The best settlement so far, at first priority's, and what may be spent on a better one.

    Args:
        contest: what is settled.
        field: the ground.
        of: per op its class: ops of one class are alike.
    """

    def __init__(self, contest: Contest, field: Field, of: Sequence[int]) -> None:
        self._contest, self._field, self._of = contest, field, of
        size = max(1, field.index.size)
        self._fine = size <= FINE
        self._left = max((FINE_EFFORT if self._fine else EFFORT) // size, 4)
        self._seen: set[tuple[int, ...]] = set()
        self.best = stand(contest, field, None)
        self._starts = [self.best]

    def offer(self, labels: Labels) -> None:
        """Play these labels, where the climb may start from."""
        if (found := self._try(labels)) is not None:
            self._starts.append(found)

    def climb(self) -> None:
        """Change the best as long as a change helps; on small graphs every start."""
        for start in self._starts if self._fine else (self.best,):
            at: Standing | None = start
            while at is not None and self._left > 0:
                at = next(self._better(at), None)

    def _try(self, labels: Labels) -> Standing | None:
        """What labels come to, None where they were tried before."""
        if (key := tuple(labels)) in self._seen:
            return None
        self._seen.add(key)
        self._left -= 1
        found = stand(self._contest, self._field, labels)
        if found.seconds < self.best.seconds * (1 - LEAST):
            self.best = found
        return found

    def _better(self, at: Standing) -> Iterator[Standing]:
        for labels in self._changes(at):
            found = self._try(labels)
            if found is not None and found.seconds < at.seconds * (1 - LEAST):
                yield found

    def _changes(self, at: Standing) -> Iterator[Labels]:
        yield without_losers(self._field, at)
        moves = [_delegates, _regions, _singles, _pieces]
        if self._fine:
            moves.append(_pairs)
        copies = _copies(self._field, at, self._of)
        for labels in chain(copies, *(move(self._field, at) for move in moves)):
            if self._left <= 0:
                return
            yield labels


def _copies(field: Field, at: Standing, of: Sequence[int]) -> Iterator[Labels]:
    """All delegates that are alike, or all ops that are, to one taker: a repeated layer once."""
    delegates: dict[tuple[int, ...], list[list[int]]] = {}
    for ops in _members(field, at):
        delegates.setdefault(tuple(of[op] for op in ops), []).append(ops)
    classes: dict[int, list[list[int]]] = {}
    for op, own in enumerate(of):
        if op not in field.index.host:
            classes.setdefault(own, []).append([op])
    for several in (*delegates.values(), *classes.values()):
        for taker in range(-1, len(field.takers)) if len(several) > 1 else ():
            if taker != at.labels[several[0][0]]:
                labels = field.moved(at.labels, chain.from_iterable(several), taker)
                if labels != at.labels:
                    yield labels


def _members(field: Field, at: Standing) -> list[list[int]]:
    """The ops of each delegate."""
    ops_of: dict[int, list[int]] = {}
    for op, group in enumerate(at.groups):
        if group >= 0 and op not in field.index.host:
            ops_of.setdefault(group, []).append(op)
    return list(ops_of.values())


def _delegates(field: Field, at: Standing) -> Iterator[Labels]:
    """A whole delegate to the fallback or to another taker."""
    for ops in _members(field, at):
        for taker in range(-1, len(field.takers)):
            if taker != at.labels[ops[0]]:
                yield field.moved(at.labels, ops, taker)


def _regions(field: Field, at: Standing) -> Iterator[Labels]:
    """All ops that hang together, are not a taker's and could be, to that taker."""
    for taker, cover in enumerate(field.cover):
        for region in regions(field, [op for op in cover if at.labels[op] != taker]):
            yield field.moved(at.labels, region, taker)
        for region in regions(field, [op for op in cover if at.labels[op] == -1]):
            yield field.moved(at.labels, region, taker)


def _singles(field: Field, at: Standing) -> Iterator[Labels]:
    """One op, with what goes with it."""
    for op, label in enumerate(at.labels):
        for taker in range(-1, len(field.takers)):
            if taker != label and (taker < 0 or op in field.cover[taker]):
                yield field.moved(at.labels, (op,), taker)


def _pieces(field: Field, at: Standing) -> Iterator[Labels]:
    """The ops of one claim, even where some of them have a smaller one."""
    for taker, piece in zip(field.taker, field.pieces, strict=True):
        if piece.fault is None and any(at.labels[op] != taker for op in piece.core):
            labels = list(at.labels)
            for op in piece.core:
                if labels[op] != taker:
                    labels = field.moved(labels, (op,), -1)
            for op in piece.core:
                labels[op] = taker
            yield labels


def _pairs(field: Field, at: Standing) -> Iterator[Labels]:
    """Two such changes at once."""
    for first in _singles(field, at):
        for op, label in enumerate(first):
            if label != at.labels[op]:
                continue
            for taker in range(-1, len(field.takers)):
                if taker != label and (taker < 0 or op in field.cover[taker]):
                    yield field.moved(first, (op,), taker)


def regions(field: Field, ops: list[int]) -> list[list[int]]:
    """Those ops by weakly connected components, each in order. O(V+E)."""
    inside = set(ops)
    parent = {op: op for op in ops}

    def root(op: int) -> int:
        while parent[op] != op:
            parent[op] = op = parent[parent[op]]
        return op

    for maker, readers in field.ends:
        if maker in inside:
            for reader in readers:
                if reader in inside:
                    parent[root(reader)] = root(maker)
    found: dict[int, list[int]] = {}
    for op in sorted(ops):
        found.setdefault(root(op), []).append(op)
    return list(found.values())
