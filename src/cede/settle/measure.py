"""How big delegates are, and splitting those that are too big."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from cede.types import Limits

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from cede.settle.hold import Hold
    from cede.settle.index import Index
    from cede.types import Contest


@dataclass(slots=True)
class Size:
    """What a set of ops amounts to, as `Limits` counts.

    Attributes:
        ops: without getitems.
        bytes: of the constants read, each once, and of the values made.
        constants: names of the constants read.
    """

    ops: int = 0
    bytes: int = 0
    constants: set[str] = field(default_factory=set)

    def add(self, op: int, index: Index) -> None:
        """Count one more op."""
        ops, nbytes, constants = _more(self.constants, (op,), index)
        self.ops += ops
        self.bytes += nbytes
        self.constants |= constants


def _more(known: set[str], ops: Iterable[int], index: Index) -> tuple[int, int, set[str]]:
    """Ops, bytes and constants that these ops add where some constants are counted already."""
    count = nbytes = 0
    fresh: set[str] = set()
    for op in ops:
        if op in index.host:  # its value is one of its producer's
            continue
        given = index.graph.ops[op]
        count += 1
        nbytes += sum(fact.nbytes for fact in given.outputs)
        for used in given.inputs:
            read = index.graph.input(used)
            if read is not None and read.constant and read.tensor is not None:
                name = read.target or read.id  # a branch reads it through an input of its own
                if name not in known and name not in fresh:
                    fresh.add(name)
                    nbytes += read.tensor.nbytes
    return count, nbytes, fresh


def measured(contest: Contest, index: Index, groups: Sequence[int]) -> dict[int, Size]:
    """The size of every delegate; {} where nothing is limited. O(V+E)."""
    if all(bounds == Limits() for bounds in (*contest.limits.values(), contest.overall)):
        return {}
    sizes: dict[int, Size] = {}
    for op, group in enumerate(groups):
        if group >= 0:
            sizes.setdefault(group, Size()).add(op, index)
    return sizes


def split_big(
    contest: Contest, index: Index, held: Hold, of: Sequence[int], groups: list[int]
) -> list[int]:
    """The delegate of every op once those beyond `max_ops` or `max_bytes` are cut in pieces.

    The pieces are runs of a topological order of the delegate, filled as evenly as the fewest
    pieces allow. No way that leaves the delegate comes back to it, and all edges between pieces
    lead on: the result is as acyclic as what is given. What goes together stays together.

    Args:
        contest: has the limits.
        index: the graph.
        held: the standing.
        of: per op its node in the contracted graph, producers first.
        groups: per op its delegate, -1 for none.
    """
    bounded = {
        key: bounds
        for key, (name, _) in enumerate(held.takers)
        if (bounds := _most(contest.limits.get(name, Limits()), contest.overall)) != Limits()
    }
    units: dict[int, dict[int, list[int]]] = {}
    for op, group in enumerate(groups):
        if group >= 0 and held.key[op] in bounded:
            node = of[index.host.get(op, op)]  # a getitem goes with its producer
            units.setdefault(group, {}).setdefault(node, []).append(op)
    split, given = list(groups), max(groups, default=-1) + 1
    for nodes in units.values():
        ordered = [nodes[node] for node in sorted(nodes)]
        bounds = bounded[held.key[ordered[0][0]]]
        for run in _runs(ordered, bounds, index)[1:]:
            for op in run:
                split[op] = given
            given += 1
    return split


def _most(one: Limits, other: Limits) -> Limits:
    """The tighter upper bounds of two, and no others."""
    ops = [most for most in (one.max_ops, other.max_ops) if most is not None]
    size = [most for most in (one.max_bytes, other.max_bytes) if most is not None]
    return Limits(max_ops=min(ops, default=None), max_bytes=min(size, default=None))


def _runs(units: list[list[int]], bounds: Limits, index: Index) -> list[list[int]]:
    runs = _filled(units, bounds.max_ops, bounds.max_bytes, index)
    if len(runs) < 2 or bounds.max_ops is None:
        return runs
    count = sum(op not in index.host for unit in units for op in unit)
    even = _filled(units, -(-count // len(runs)), bounds.max_bytes, index)
    return even if len(even) == len(runs) else runs


def _filled(
    units: list[list[int]], most_ops: int | None, most_bytes: int | None, index: Index
) -> list[list[int]]:
    runs: list[list[int]] = []
    size = Size()
    for unit in units:
        ops, nbytes, constants = _more(size.constants, unit, index)
        over = (most_ops is not None and size.ops + ops > most_ops) or (
            most_bytes is not None and size.bytes + nbytes > most_bytes
        )
        if over or not runs:
            runs.append([])
            size = Size()
            ops, nbytes, constants = _more(size.constants, unit, index)
        runs[-1].extend(unit)
        size.ops += ops
        size.bytes += nbytes
        size.constants |= constants
    return runs
