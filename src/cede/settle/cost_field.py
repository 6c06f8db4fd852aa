"""The ground of cost mode: which op may go to which taker, and what everything costs there."""

from __future__ import annotations

from typing import TYPE_CHECKING

from cede.costs import CostModel

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from cede.settle.hold import Key
    from cede.settle.index import Index
    from cede.settle.pieces import Piece
    from cede.types import Costs

Labels = list[int]
"""Per op the number of its taker, -1 for the fallback; a getitem has its producer's."""


class Field:
    """What does not change while labels are tried.

    Attributes:
        index: the graph.
        pieces: of the contest.
        model: seconds.
        takers: backends with compile specs, in the order of their first piece.
        numbers: of the takers.
        taker: per piece its taker.
        cover: per taker, for each op that it may have, the smallest piece that brings it.
        needs: per taker, for each op the others whose piece it is in.
        ends: per value the op that makes it (-1: the caller) and those that read it, without
            getitems and without the maker.
        leaving: per value whether the caller gets it.
        times: per value how often it is there: once.
        touching: per op the numbers of the values that it makes or reads.
        prices: per taker the seconds of each value at its border.
        seconds: per taker the seconds of each op; the last row is the fallback's, where those that
            are wanted count more than all else together.
    """

    def __init__(
        self, index: Index, pieces: Sequence[Piece], costs: Costs, wanted: Iterable[str] = ()
    ) -> None:
        self.index, self.pieces = index, pieces
        self.model = CostModel(index.graph, costs)
        self.numbers: dict[Key, int] = {}
        self.taker = [
            self.numbers.setdefault((piece.claim.backend, piece.claim.specs), len(self.numbers))
            for piece in pieces
        ]
        self.takers = list(self.numbers)
        self.cover: list[dict[int, tuple[int, ...]]] = [{} for _ in self.takers]
        for taker, piece in zip(self.taker, pieces, strict=True):
            if piece.fault is None:
                cover = self.cover[taker]
                for op in piece.core:
                    if op not in cover or len(piece.core) < len(cover[op]):
                        cover[op] = piece.core
        self.needs = [_turned(cover) for cover in self.cover]
        self.ends = [self._ends(value.producer, value.readers) for value in self.model.values]
        self.leaving = [value.leaves for value in self.model.values]
        self.times = [1] * len(self.ends)
        self.touching: list[list[int]] = [[] for _ in range(index.size)]
        for number, (maker, readers) in enumerate(self.ends):
            for op in readers if maker < 0 else (maker, *readers):
                self.touching[op].append(number)
        rows = {name: self.model.compute(name) for name, _ in self.takers}
        border = {
            name: [self.model.crossing(value, name) for value in self.model.values] for name in rows
        }
        self.prices = [border[name] for name, _ in self.takers]
        fallback = list(self.model.compute(""))
        self.seconds = [*(rows[name] for name, _ in self.takers), fallback]
        if wanted:
            dear = sum(map(max, zip(*self.seconds, strict=True)))
            dear += 2 * sum(map(sum, self.prices))
            dear += index.size * sum(self.launch(taker) for taker in range(len(self.takers)))
            for name in wanted:
                fallback[index.place[name]] += dear

    def _ends(self, producer: int, readers: Iterable[int]) -> tuple[int, list[int]]:
        host = self.index.host
        maker = host.get(producer, producer)
        return maker, sorted({host.get(reader, reader) for reader in readers} - {maker})

    def launch(self, taker: int) -> float:
        """Seconds of calling a delegate of that taker."""
        return self.model.launch(self.takers[taker][0])

    def border(self, taker: Key, number: int) -> float:
        """Seconds of a value at the border of that taker."""
        return self.prices[self.numbers[taker]][number]

    def nothing(self) -> Labels:
        """Labels that leave all to the fallback."""
        return [-1] * self.index.size

    def moved(self, labels: Labels, ops: Iterable[int], taker: int) -> Labels:
        """Those labels with some ops given to a taker, and what goes with them.

        Ops whose piece is broken by that fall to the fallback. Ops that the taker can't have stay.
        """
        made = list(labels)
        moving = [op for op in ops if made[op] != taker]
        broken: list[tuple[int, int]] = []
        while moving:
            op = moving.pop()
            if made[op] == taker or (taker >= 0 and op not in self.cover[taker]):
                continue
            if made[op] >= 0:
                broken.append((made[op], op))
            made[op] = taker
            if taker >= 0:
                moving.extend(self.cover[taker][op])
        while broken:
            former, op = broken.pop()
            for other in self.needs[former].get(op, ()):
                if made[other] == former:
                    made[other] = -1
                    broken.append((former, other))
        return made

    def labels(self, takers: Sequence[Key], keys: Sequence[int]) -> Labels:
        """Labels of a standing, whose takers are numbered otherwise."""
        numbers = [self.numbers[taker] for taker in takers]
        return [
            -1 if key < 0 or op in self.index.host else numbers[key] for op, key in enumerate(keys)
        ]

    def chosen(self, labels: Labels) -> list[bool]:
        """Per piece whether the labels give its taker all of its ops."""
        return [
            piece.fault is None and all(labels[op] == taker for op in piece.core)
            for taker, piece in zip(self.taker, self.pieces, strict=True)
        ]

    def needed(self, chosen: Sequence[bool]) -> list[bool]:
        """Of these pieces those without which an op would have none; the others only tie ops."""
        return [
            taken
            and (not piece.core or any(self.cover[taker][op] == piece.core for op in piece.core))
            for taken, taker, piece in zip(chosen, self.taker, self.pieces, strict=True)
        ]


def _turned(cover: dict[int, tuple[int, ...]]) -> dict[int, list[int]]:
    needs: dict[int, list[int]] = {}
    for op, core in cover.items():
        for other in core:
            if other != op:
                needs.setdefault(other, []).append(op)
    return needs
