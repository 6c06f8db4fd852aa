"""Bounds on delegates: those that fall to them, and those that are split."""

from __future__ import annotations

from typing import TYPE_CHECKING

from cede.types import Code, Limits, Reason

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from cede.settle.hold import Hold
    from cede.settle.index import Index
    from cede.settle.measure import Size
    from cede.types import Contest

BOUNDS = (
    ("min_ops", "ops", Code.TOO_SMALL),
    ("min_bytes", "bytes", Code.TOO_SMALL),
    ("max_ops", "ops", Code.TOO_BIG),
    ("max_bytes", "bytes", Code.TOO_BIG),
)
"""Field of `Limits`, field of `Size`, and the code of a delegate beyond the bound."""


def over_limits(
    contest: Contest, index: Index, held: Hold, groups: list[int], sizes: Mapping[int, Size]
) -> dict[int, Reason]:
    """Delegates that limits drop, with why.

    First those too small or too big by their backend's limits or the overall ones go; then all but
    the `max_delegates` with the most ops, backend by backend, and last over all backends; of equal
    ones the first stay.

    Args:
        contest: has the limits.
        index: the graph.
        held: the standing.
        groups: per op its delegate, -1 for none.
        sizes: of every delegate; {} where `measured` found that there are no limits.
    """
    if not sizes:
        return {}
    backend = {
        group: held.takers[held.key[op]][0]
        for op, group in reversed(list(enumerate(groups)))
        if group >= 0
    }
    within = [(name, bounds, [g for g in sizes if backend[g] == name])
              for name, bounds in contest.limits.items()]  # fmt: skip
    within.append(("all backends", contest.overall, list(sizes)))
    dropped: dict[int, Reason] = {}
    for name, bounds, own in within:
        for group in own:
            if group not in dropped and (reason := _beyond(name, bounds, sizes[group])):
                dropped[group] = reason
    for name, bounds, own in within:
        if bounds.max_delegates is not None:
            stay = sorted((g for g in own if g not in dropped), key=lambda g: -sizes[g].ops)
            dropped.update(_surplus(name, bounds.max_delegates, stay, sizes))
    return dropped


def _beyond(name: str, bounds: Limits, size: Size) -> Reason | None:
    for bound, measure, code in BOUNDS:
        limit, found = getattr(bounds, bound), getattr(size, measure)
        if limit is None or (found >= limit if code is Code.TOO_SMALL else found <= limit):
            continue
        split = " and it can't be split further" if code is Code.TOO_BIG else ""
        shown = _count(found, measure)
        return Reason(
            code=code,
            detail=f"the delegate would have {shown}{split}, {bound} of {name} is {limit}",
        )
    return None


def _surplus(
    name: str, most: int, stay: Sequence[int], sizes: Mapping[int, Size]
) -> dict[int, Reason]:
    kept = "none stays"
    if 0 < most < len(stay):
        kept = f"the smallest kept has {sizes[stay[most - 1]].ops}"
    return {
        group: Reason(
            code=Code.POLICY,
            detail=f"max_delegates of {name} is {most}: this one has"
            f" {_count(sizes[group].ops, 'ops')}, {kept}",
        )
        for group in stay[max(0, most) :]
    }


def _count(count: int, measure: str) -> str:
    return f"{count} {measure.removesuffix('s') if count == 1 else measure}"
