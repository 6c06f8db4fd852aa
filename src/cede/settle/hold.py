"""Who holds which op: pieces in their order, the first one wins."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from cede.settle.index import Index
    from cede.settle.pieces import Piece
    from cede.types import Reason, Spec

Key = tuple[str, "tuple[Spec, ...]"]
"""What makes two claims one backend's: its name and the compile specs."""


@dataclass(slots=True)
class Hold:
    """The standing of one round.

    Attributes:
        takers: backend and compile specs by key.
        key: per op the key that takes it, -1 for nobody.
        owner: per op the rank of the partitioner that has it, -1 for nobody.
        parent: union-find over ops that go together; roots stand for units.
        lost: by piece number, the first op that another key had when the piece came.
        joined: whether any unit has two ops (getitems aside).
    """

    takers: list[Key]
    key: list[int]
    owner: list[int]
    parent: list[int]
    lost: dict[int, int] = field(default_factory=dict)
    joined: bool = False

    def unit(self, op: int) -> int:
        """The op that stands for all that go together with this one."""
        parent = self.parent
        while parent[op] != op:
            parent[op] = op = parent[parent[op]]
        return op

    def join(self, ops: Sequence[int]) -> None:
        """Make these ops go together."""
        first = self.unit(ops[0])
        for op in ops[1:]:
            other = self.unit(op)
            if other < first:
                first, other = other, first
            self.parent[other] = first
        self.joined = True


def hold(pieces: Sequence[Piece], out: Mapping[int, Reason], index: Index) -> Hold:
    """Give every piece its ops unless another backend has one of them.

    Pieces of one backend and specs that overlap are joined; the earlier partitioner owns what both
    claim. A getitem goes with its producer.

    Args:
        pieces: in the order in which they are considered.
        out: numbers of pieces that are out of the contest.
        index: the graph.
    """
    size = index.size
    held = Hold([], [-1] * size, [-1] * size, list(range(size)))
    numbers: dict[Key, int] = {}
    key_of, owner = held.key, held.owner
    for number, piece in enumerate(pieces):
        if number in out or not piece.core:
            continue
        taker = (piece.claim.backend, piece.claim.specs)
        if (key := numbers.get(taker, -1)) < 0:
            key = numbers[taker] = len(held.takers)
            held.takers.append(taker)
        rival = next((op for op in piece.core if key_of[op] != key and key_of[op] >= 0), -1)
        if rival >= 0:
            held.lost[number] = rival
            continue
        for op in piece.core:
            if key_of[op] < 0:
                key_of[op] = key
                owner[op] = piece.rank
        if len(piece.core) > 1:
            held.join(piece.core)
    for pick, host in index.host.items():
        key_of[pick], owner[pick] = key_of[host], owner[host]
        held.parent[pick] = held.unit(host)
    return held
