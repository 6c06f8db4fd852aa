"""Bounds on the delegates of each backend."""

from __future__ import annotations

from typing import TYPE_CHECKING

from cede.types import Code, Limits, Reason

if TYPE_CHECKING:
    from collections.abc import Mapping

    from cede.settle.hold import Hold
    from cede.settle.index import Index


def over_limits(
    limits: Mapping[str, Limits], index: Index, held: Hold, groups: list[int]
) -> dict[int, Reason]:
    """Delegates that their backend's limits drop, with why.

    First those with fewer ops than `min_ops` go (getitems don't count), then all but the
    `max_delegates` largest; of equal ones the first stay.
    """
    if not limits:
        return {}
    size: dict[int, int] = {}
    backend: dict[int, str] = {}
    for op, group in enumerate(groups):
        if group < 0:
            continue
        if group not in size:
            size[group] = 0
            backend[group] = held.takers[held.key[op]][0]
        if op not in index.host:
            size[group] += 1
    dropped: dict[int, Reason] = {}
    for name, bounds in limits.items():
        own = [group for group in size if backend[group] == name]
        least = bounds.min_ops or 0
        for group in own:
            if size[group] < least:
                dropped[group] = Reason(
                    code=Code.TOO_SMALL,
                    detail=f"the delegate would have {_ops(size[group])}, min_ops of {name} is"
                    f" {least}",
                )
        if bounds.max_delegates is not None:
            stay = sorted((g for g in own if g not in dropped), key=lambda g: -size[g])
            dropped.update(_surplus(name, bounds.max_delegates, stay, size))
    return dropped


def _surplus(name: str, most: int, stay: list[int], size: dict[int, int]) -> dict[int, Reason]:
    kept = f"the smallest kept has {size[stay[most - 1]]}" if 0 < most < len(stay) else "none stays"
    return {
        group: Reason(
            code=Code.POLICY,
            detail=f"max_delegates of {name} is {most}: this one has {_ops(size[group])}, {kept}",
        )
        for group in stay[max(0, most) :]
    }


def _ops(count: int) -> str:
    return f"{count} op" if count == 1 else f"{count} ops"
