"""Claims whose ops only make sense together."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

    from cede.types import Claim, OpGraph


def joined(claims: Iterable[Claim], groups: Iterable[Iterable[str]], graph: OpGraph) -> list[Claim]:
    """One indivisible claim for all claims that a group of ops touches, the others as they are.

    Args:
        claims: of one partitioner; no op in two of them.
        groups: ids of ops; those that are in no claim are passed over. Groups that share an op,
            or touch one claim, become one.
        graph: gives the order of the result: by each claim's first op.
    """
    given = list(claims)
    home = {op: i for i, claim in enumerate(given) for op in claim.ops}
    root = list(range(len(given)))

    def find(i: int) -> int:
        while root[i] != i:
            root[i] = root[root[i]]
            i = root[i]
        return i

    touched = set()
    for group in groups:
        found = sorted({home[op] for op in group if op in home})
        touched.update(found)
        for other in found[1:]:
            root[find(other)] = find(found[0])
    together: dict[int, list[Claim]] = {}
    for i, claim in enumerate(given):
        together.setdefault(find(i), []).append(claim)
    whole = {find(i) for i in touched}
    result = [_one(parts, i in whole) for i, parts in together.items()]
    return sorted(result, key=lambda claim: min(map(graph.position, claim.ops)))


def _one(parts: list[Claim], whole: bool) -> Claim:
    first = parts[0]
    if len(parts) == 1:
        return replace(first, divisible=False) if whole else first
    return replace(
        first,
        ops=frozenset(op for part in parts for op in part.ops),
        note=", ".join(dict.fromkeys(part.note for part in parts if part.note)),
        marks=tuple(mark for part in parts for mark in part.marks),
        divisible=False,
    )
