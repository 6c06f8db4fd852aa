"""The order in which delegates run."""

from __future__ import annotations

import heapq
from typing import TYPE_CHECKING

from cede.settle.index import readers
from cede.settle.nodes import quotient

if TYPE_CHECKING:
    from cede.settle.index import Feeds, Index


def execution_order(index: Index, groups: list[int]) -> list[int]:
    """Delegates in topological order, of those that could be next the one with the first op.

    Args:
        index: the graph.
        groups: per op its delegate, -1 for none.
    """
    first: dict[int, int] = {}
    for op, group in enumerate(groups):
        if group >= 0:
            first.setdefault(group, op)
    feeds = _timeline(index, groups, max(first, default=-1) + 1)
    reads, waiting = readers(feeds), [len(producers) for producers in feeds]
    free = [node for node, left in enumerate(waiting) if not left]
    ready: list[int] = []  # first ops of delegates
    order: list[int] = []
    while free or ready:
        if not free:
            order.append(groups[heapq.heappop(ready)])
            free.append(~order[-1])
        node = free.pop()
        if node in first:
            heapq.heappush(ready, first[node])
            continue
        for reader in reads[~node if node < 0 else node]:
            waiting[reader] -= 1
            if not waiting[reader]:
                free.append(reader)
    return order


def _timeline(index: Index, groups: list[int], delegates: int) -> Feeds:
    # Delegates are nodes 0.., ops that nobody takes stand behind them, and one more node for each
    # control-flow op is where its branches start: they run after what it reads, before itself.
    of, count = [], delegates
    for group in groups:
        of.append(group if group >= 0 else count)
        count += group < 0
    feeds = quotient(of, count, index.feeds)
    for flow, inside in index.inside.items():
        entry = len(feeds)
        feeds.append([of[producer] for producer in index.feeds[flow]])
        for op in inside:
            if of[op] != of[flow]:
                feeds[of[op]].append(entry)
                feeds[of[flow]].append(of[op])
    return feeds
