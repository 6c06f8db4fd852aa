"""Parts of a delegate that only a later delegate reads go there, where fewer bytes then cross.

Levels put each op into the first delegate that it may go to. What nothing connects to the rest of
its delegate, and what is read in one later delegate of the same taker alone, may as well go there:
whatever it reads was made before, so no cycle comes of it, and both delegates stay convex.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from cede.settle.index import readers
from cede.types import Limits

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from cede.settle.hold import Hold
    from cede.settle.index import Index
    from cede.types import Contest


def sunk(contest: Contest, index: Index, held: Hold, groups: list[int]) -> list[int]:
    """Per op its delegate, -1 for none, after all moves that help. O(V+E).

    Programs with control flow, and backends with limits or that take connected delegates only,
    stay as they are.

    Args:
        contest: its limits and its backends that take connected delegates only.
        index: the graph.
        held: the standing.
        groups: per op its delegate, -1 for none.
    """
    if index.inside or contest.overall != Limits():
        return groups
    free = {
        key
        for key, (name, _) in enumerate(held.takers)
        if name not in contest.connected and contest.limits.get(name, Limits()) == Limits()
    }
    if not free or max(groups, default=-1) < 1:
        return groups
    moving = _Moving(index, held, groups)
    for party in _parties(index, held, groups, free):
        moving.consider(party)
    return moving.groups


def _parties(index: Index, held: Hold, groups: list[int], free: set[int]) -> list[list[int]]:
    """The weakly connected parts of all delegates, those that end last first."""
    parent = list(range(index.size))

    def root(op: int) -> int:
        while parent[op] != op:
            parent[op] = op = parent[parent[op]]
        return op

    found: dict[int, list[int]] = {}
    mine = [op for op, group in enumerate(groups) if group >= 0 and held.key[op] in free]
    for op in mine:
        for other in index.feeds[op]:
            if groups[other] == groups[op]:
                parent[root(other)] = root(op)
        if held.joined and (unit := held.unit(op)) != op:
            parent[root(unit)] = root(op)
    for op in mine:
        found.setdefault(root(op), []).append(op)
    return sorted(found.values(), key=lambda party: -party[-1])


class _Moving:
    """Delegates while parts of them move.

    Attributes:
        groups: per op its delegate by now.
    """

    def __init__(self, index: Index, held: Hold, groups: list[int]) -> None:
        self.groups = list(groups)
        self._index, self._held = index, held
        self._reads = readers(index.feeds)
        graph = index.graph
        leaving = {*graph.outputs, *(made for _, made in graph.mutations)}
        self._leaving = {place for id in leaving if (place := index.place.get(id)) is not None}
        self._within: dict[int | str, Counter[int]] = {}

    def consider(self, party: list[int]) -> None:
        """Move a part where fewer bytes, and no more values, cross then."""
        target = self._target(party)
        if target is None:
            return
        own = self.groups[party[0]]
        given = Counter(value for op in party for value in self._outside(op, own))
        out = [op for op in party if any(self.groups[r] != own for r in self._reads[op])]
        less = [*out, *out, *(v for v, times in given.items() if self._readers_of(v)[own] == times)]
        more = [value for value in given if not self._readers_of(value)[target]]
        fewer = sum(map(self._bytes, more)) < sum(map(self._bytes, less))
        if not fewer or len(more) > len(less):
            return
        for op in party:
            self.groups[op] = target
        for value, times in given.items():
            self._within[value][own] -= times
            self._within[value][target] += times

    def _target(self, party: Sequence[int]) -> int | None:
        """The one other delegate that reads this part, if its taker is the same."""
        own, target = self.groups[party[0]], None
        for op in party:
            if op in self._leaving:
                return None
            for reader in self._reads[op]:
                group = self.groups[reader]
                if group in (own, target):
                    continue
                if target is not None or group < 0:
                    return None
                if self._held.key[reader] != self._held.key[op]:
                    return None
                target = group
        return target

    def _outside(self, op: int, own: int) -> Iterator[int | str]:
        """What an op reads from outside its delegate: ops, and names of inputs."""
        for used in self._index.graph.ops[op].inputs:
            place = self._index.place.get(used)
            if place is not None:
                if self.groups[place] != own:
                    yield place
            elif (given := self._index.graph.input(used)) is not None and not given.constant:
                yield used

    def _readers_of(self, value: int | str) -> Counter[int]:
        """How many reads of a value each delegate has."""
        if value not in self._within:
            index = self._index
            name = value if isinstance(value, str) else index.name(value)
            self._within[value] = Counter(
                self.groups[index.place[user]]
                for user in index.graph.users(name)
                if user in index.place
            )
        return self._within[value]

    def _bytes(self, value: int | str) -> int:
        if isinstance(value, str):
            given = self._index.graph.input(value)
            return given.tensor.nbytes if given is not None and given.tensor is not None else 0
        return sum(fact.nbytes for fact in self._index.graph.ops[value].outputs)
