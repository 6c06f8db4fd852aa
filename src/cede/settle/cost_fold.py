"""Repeated layers once: ops that look alike, all around, are one op with the seconds of all.

Ops are told apart by colour refinement (B. Weisfeiler and A. Lehman, 1968), for a few rounds only,
so that the copies of a layer count as alike but for those next to the ends. Giving all of them to
one taker then is an assumption: what comes of it is weighed like everything else that cost mode
tries.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from cede.settle.cost_field import Field, Labels

ROUNDS = 12
"""How far ops must look alike, in steps from value to value."""


def alike(field: Field) -> list[int]:
    """Per op the number of its class. O((V+E) * ROUNDS), but for sorting the users of a value."""
    colours = _interned([
        (
            tuple(row[op] for row in field.seconds),
            tuple(len(cover.get(op, ())) for cover in field.cover),
        )
        for op in range(field.index.size)
    ])  # fmt: skip
    values = _interned([
        (tuple(row[number] for row in field.prices), field.model.values[number].leaves)
        for number in range(len(field.ends))
    ])  # fmt: skip
    count = max(colours, default=-1) + 1
    for _ in range(ROUNDS):
        colours = _refined(field, colours, values)
        if (found := max(colours, default=-1) + 1) == count:
            break  # nothing was told apart, and nothing will be
        count = found
    return colours


def _refined(field: Field, colours: list[int], values: list[int]) -> list[int]:
    """Colours by what ops were, and by what they make, read and go with."""
    seen: list[list[tuple[int, ...]]] = [[] for _ in colours]
    for number, (maker, readers) in enumerate(field.ends):
        reads = sorted(colours[reader] for reader in readers)
        own = colours[maker] if maker >= 0 else -1
        here = (values[number], own, *reads)
        if maker >= 0:
            seen[maker].append((0, *here))
        for reader in readers:
            seen[reader].append((1, *here))
    for cover in field.cover:
        for op, core in cover.items():
            if len(core) > 1:
                seen[op].append((2, *sorted(colours[other] for other in core)))
    return _interned([
        (colour, tuple(sorted(around))) for colour, around in zip(colours, seen, strict=True)
    ])  # fmt: skip


def _interned(keys: list[tuple[object, ...]]) -> list[int]:
    """A number for each key, in order of appearance."""
    numbers: dict[tuple[object, ...], int] = {}
    return [numbers.setdefault(key, len(numbers)) for key in keys]


class Fold:
    """A field with one op for each class, as far as cuts look at it.

    Args:
        field: what is folded.
        of: per op its class.
    """

    def __init__(self, field: Field, of: list[int]) -> None:
        self._of, self._launch = of, field.launch
        size = max(of, default=-1) + 1
        first: dict[int, int] = {}
        for op, own in enumerate(of):
            first.setdefault(own, op)
        self.takers = field.takers
        self.seconds = [[0.0] * size for _ in field.seconds]
        for row, given in zip(self.seconds, field.seconds, strict=True):
            for op, own in enumerate(of):
                row[own] += given[op]
        self.cover: list[dict[int, tuple[int, ...]]] = [
            {
                own: tuple(sorted({of[other] for other in cover[op]}))
                for own, op in first.items()
                if op in cover
            }
            for cover in field.cover
        ]
        self._add_values(field)

    def _add_values(self, field: Field) -> None:
        numbers: dict[tuple[object, ...], int] = {}
        self.ends: list[tuple[int, list[int]]] = []
        self.leaving: list[bool] = []
        self.times: list[int] = []
        self.prices: list[list[float]] = [[] for _ in field.prices]
        for number, (maker, readers) in enumerate(field.ends):
            own = self._of[maker] if maker >= 0 else -1
            reads = sorted({self._of[reader] for reader in readers} - {own})
            leaves = field.leaving[number]
            key = own, tuple(reads), leaves
            if (place := numbers.setdefault(key, len(numbers))) == len(self.ends):
                self.ends.append((own, reads))
                self.leaving.append(leaves)
                self.times.append(0)
                for row in self.prices:
                    row.append(0.0)
            self.times[place] += 1
            for row, given in zip(self.prices, field.prices, strict=True):
                row[place] += given[number]

    def launch(self, taker: int) -> float:
        """As `Field.launch`."""
        return self._launch(taker)

    def nothing(self) -> Labels:
        """Labels that leave all to the fallback."""
        return [-1] * len(self.seconds[-1])

    def unfolded(self, labels: Labels) -> Labels:
        """Labels of the field."""
        return [labels[own] for own in self._of]
