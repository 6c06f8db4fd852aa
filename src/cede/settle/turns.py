"""Several backends in one scope, one after the other: each gets the fewest delegates in its turn.

Ordered typed fusion (Kennedy and McKinley, 1993): a key's nodes are labelled by levels in the graph
that has the delegates of the keys before it as nodes. This is what a list of partitioners does at
its best; `wave` is nearly always better, and never to be worse.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from cede.settle.label import label
from cede.settle.nodes import kahn, quotient

if TYPE_CHECKING:
    from cede.settle.index import Feeds


def in_turn(feeds: Feeds, keys: list[int], count: int) -> tuple[int, list[int]]:
    """The number of delegates, and the delegate of every node (-1 for nodes not taken).

    Args:
        feeds: producers of each node; nodes are in topological order.
        keys: who takes each node, 0 to count - 1 in the order of their turns, -1 for nobody.
        count: the number of keys.
    """
    of, takers = list(range(len(feeds))), keys
    for key in range(count - 1):
        classes = _classes(feeds, takers, key)
        size = max(classes) + 1
        merged, taken = quotient(classes, size, feeds), [-1] * size
        for node, own in enumerate(classes):
            taken[own] = takers[node]
        order = kahn(merged)
        place = [0] * size
        for i, node in enumerate(order):
            place[node] = i
        feeds = [[place[p] for p in merged[node]] for node in order]
        takers = [taken[node] for node in order]
        of = [place[classes[node]] for node in of]
    last = _classes(feeds, takers, count - 1)  # nobody comes after it, so nothing is merged
    numbers: dict[int, int] = {}
    groups = [
        numbers.setdefault(last[node], len(numbers)) if takers[node] >= 0 else -1 for node in of
    ]
    return len(numbers), groups


def _classes(feeds: Feeds, keys: list[int], key: int) -> list[int]:
    """The delegates of a key, numbered from 0, and behind them every other node by itself."""
    classes = label(feeds, keys, key)
    size = max(classes, default=-1) + 1
    for node, group in enumerate(classes):
        if group < 0:
            classes[node] = size
            size += 1
    return classes
