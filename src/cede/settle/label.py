"""One backend in one scope: the fewest delegates, by levels.

level(n) is the maximum over n's producers p of level(p), plus one where p is taken and n is not.
All taken nodes of one level make one delegate. Two taken nodes of different levels can never
share one, so this is the fewest possible (typed fusion: K. Kennedy and K. S. McKinley,
"Typed Fusion with Applications to Parallel and Sequential Code Generation", 1993).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from cede.settle.index import Feeds


def levels(feeds: Feeds, keys: list[int], key: int) -> list[int]:
    """The level of every node for one key.

    Args:
        feeds: producers of each node; nodes are in topological order.
        keys: who takes each node, -1 for nobody.
        key: the taker that is labelled; all others count as not taken.
    """
    level: list[int] = []
    after: list[int] = []  # the level that a reader which isn't taken stands on
    for node, producers in enumerate(feeds):
        top = 0
        if keys[node] == key:
            for p in producers:
                if level[p] > top:
                    top = level[p]
            after.append(top + 1)
        else:
            for p in producers:
                if after[p] > top:
                    top = after[p]
            after.append(top)
        level.append(top)
    return level


def label(feeds: Feeds, keys: list[int], key: int) -> list[int]:
    """The delegate of every node, numbered from 0 without gaps, -1 for nodes not taken."""
    level = levels(feeds, keys, key)
    numbers: dict[int, int] = {}
    return [
        numbers.setdefault(level[n], len(numbers)) if taken == key else -1
        for n, taken in enumerate(keys)
    ]
