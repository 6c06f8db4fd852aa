"""One backend in one scope: the fewest delegates, by levels.

level(n) is the maximum over n's producers p of level(p), plus one where p is taken and n is not.
All taken nodes of one level make one delegate. Two taken nodes of different levels can never
share one, so this is the fewest possible (typed fusion: K. Kennedy and K. S. McKinley,
"Typed Fusion with Applications to Parallel and Sequential Code Generation", 1993).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

    from cede.settle.index import Feeds


def levels(feeds: Feeds, keys: list[int], key: int, order: Sequence[int]) -> list[int]:
    """The level of every node for one key.

    Args:
        feeds: producers of each node.
        keys: who takes each node, -1 for nobody.
        key: the taker that is labelled; all others count as not taken.
        order: the nodes, topologically sorted.
    """
    level = [0] * len(feeds)
    after = [0] * len(feeds)  # the level that a reader which isn't taken stands on
    for node in order:
        top, producers = 0, feeds[node]
        if keys[node] == key:
            for p in producers:
                if level[p] > top:
                    top = level[p]
            after[node] = top + 1
        else:
            for p in producers:
                if after[p] > top:
                    top = after[p]
            after[node] = top
        level[node] = top
    return level


def label(feeds: Feeds, keys: list[int], key: int) -> list[int]:
    """The delegate of every node, numbered from 0 without gaps, -1 for nodes not taken.

    Args:
        feeds: producers of each node; nodes are in topological order.
        keys: who takes each node, -1 for nobody.
        key: the taker.
    """
    level = levels(feeds, keys, key, range(len(feeds)))
    numbers: dict[int, int] = {}
    return [
        numbers.setdefault(level[n], len(numbers)) if taken == key else -1
        for n, taken in enumerate(keys)
    ]
