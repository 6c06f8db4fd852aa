"""Several backends in one scope: few delegates by a topological order that stays with a backend.

The order is Kahn's with one ready queue per key (a backend with its compile specs) and one for
fallback. Each run of one key is a delegate, so delegates are convex and can't form a cycle. The
fewest runs for several keys generalise the shortest common supersequence, which is NP-hard, so:

* fallback goes first whenever it is ready: it costs nothing and only releases more;
* of the keys with ready nodes that one goes which has the longest way of delegates before it;
* of equal ones, a key goes that has nothing to wait for: no node that its next delegate could hold
  needs another key first (the levels of `label`, taken per key, tell which nodes those are). Such
  a key may also go before one that has a way longer by one.

Both are tried from both ends of the graph, and last the keys one after the other (`in_turn`); the
first of the fewest stands.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from cede.settle.index import readers
from cede.settle.label import levels
from cede.settle.turns import in_turn

if TYPE_CHECKING:
    from collections.abc import Iterator

    from cede.settle.index import Feeds

Attempt = tuple[int, list[int], int]
"""Number of delegates, the delegate of every node, and a number that can't be undercut."""


def wave(feeds: Feeds, keys: list[int], count: int) -> list[int]:
    """The delegate of every node, numbered from 0 without gaps, -1 for nodes not taken.

    Args:
        feeds: producers of each node; nodes are in topological order.
        keys: who takes each node, 0 to count - 1, -1 for nobody.
        count: the number of keys, all of which occur.
    """
    fewest, best = len(feeds) + 1, keys
    floor = 0
    for attempt in (_forwards, _backwards, _in_turn):
        for runs, groups, least in attempt(feeds, keys, count):
            floor = max(floor, least)
            if runs < fewest:
                fewest, best = runs, groups
            if fewest == floor:
                return best
    return best


def _forwards(feeds: Feeds, keys: list[int], count: int) -> Iterator[Attempt]:
    ground = _Ground(feeds, keys, count)
    for bonus in (0, 1):
        runs, groups = _Run(ground, bonus).go()
        yield runs, groups, ground.floor


def _backwards(feeds: Feeds, keys: list[int], count: int) -> Iterator[Attempt]:
    last = len(feeds) - 1
    turned = [[last - reader for reader in of] for of in reversed(readers(feeds))]
    for runs, groups, floor in _forwards(turned, keys[::-1], count):
        yield runs, groups[::-1], floor


def _in_turn(feeds: Feeds, keys: list[int], count: int) -> Iterator[Attempt]:
    yield (*in_turn(feeds, keys, count), 0)


class _Ground:
    """What all runs over one graph share; nothing in it changes.

    Attributes:
        level: the level of each node among those of its key.
        height: delegates on the longest way from each node to the end.
        floor: fewer runs than this can't be: what every key needs if it were alone.
    """

    __slots__ = ("blocked", "count", "feeds", "floor", "height", "keys", "left", "level", "reads")

    def __init__(self, feeds: Feeds, keys: list[int], count: int) -> None:
        self.feeds, self.keys, self.count = feeds, keys, count
        self.reads = readers(feeds)
        self.level = [0] * len(feeds)
        self.left: list[list[int]] = []
        self.blocked: list[list[int]] = []
        for key in range(count):
            self._measure(key)
        self.floor = sum(map(len, self.left))
        self.height = self._heights()

    def _measure(self, key: int) -> None:
        # Per level of the key: how many nodes, and how many edges into them from other takers.
        alone = levels(self.feeds, self.keys, key)
        mine = [node for node, taken in enumerate(self.keys) if taken == key]
        places = {level: i for i, level in enumerate(sorted({alone[node] for node in mine}))}
        left, blocked = [0] * len(places), [0] * len(places)
        for node in mine:
            level = self.level[node] = places[alone[node]]
            left[level] += 1
            for producer in self.feeds[node]:
                if self.keys[producer] != key:
                    blocked[level] += 1
        self.left.append(left)
        self.blocked.append(blocked)

    def _heights(self) -> list[int]:
        keys, height = self.keys, [0] * len(self.feeds)
        for node in range(len(height) - 1, -1, -1):
            key = keys[node]
            best = int(key >= 0)
            for reader in self.reads[node]:
                reached = height[reader] + (key >= 0 and keys[reader] != key)
                if reached > best:
                    best = reached
            height[node] = best
        return height


class _Run:
    """One order over the graph."""

    __slots__ = ("blocked", "bonus", "ground", "group", "left", "low", "ready", "score", "waiting")

    def __init__(self, ground: _Ground, bonus: int) -> None:
        self.ground, self.bonus = ground, bonus
        self.left = [list(row) for row in ground.left]
        self.blocked = [list(row) for row in ground.blocked]
        self.low = [0] * ground.count
        self.score = [0] * ground.count
        self.ready: list[list[int]] = [[] for _ in range(ground.count + 1)]  # the last: fallback
        self.waiting = [len(producers) for producers in ground.feeds]
        self.group = [-1] * len(ground.feeds)

    def go(self) -> tuple[int, list[int]]:
        """The number of runs, and the run of every node (-1: fallback)."""
        for node, producers in enumerate(self.ground.feeds):
            if not producers:
                self._push(node)
        runs = 0
        while True:
            self._drain(-1, -1)
            key = self._next()
            if key < 0:
                return runs, self.group
            self._drain(key, runs)
            runs += 1

    def _push(self, node: int) -> None:
        key = self.ground.keys[node]
        self.ready[key].append(node)
        if key >= 0 and self.ground.height[node] > self.score[key]:
            self.score[key] = self.ground.height[node]

    def _next(self) -> int:
        best, most = -1, (-1, False)
        for key, queue in enumerate(self.ready[:-1]):
            if not queue:
                continue
            left = self.left[key]
            while not left[self.low[key]]:
                self.low[key] += 1
            free = not self.blocked[key][self.low[key]]
            score = self.score[key] + self.bonus * free
            if (score, free) > most:
                best, most = key, (score, free)
        return best

    def _drain(self, key: int, run: int) -> None:
        ground, waiting, queue = self.ground, self.waiting, self.ready[key]
        keys, level, reads = ground.keys, ground.level, ground.reads
        while queue:
            node = queue.pop()
            self.group[node] = run
            if key >= 0:
                self.left[key][level[node]] -= 1
            for reader in reads[node]:
                taker = keys[reader]
                if taker >= 0 and taker != key:
                    self.blocked[taker][level[reader]] -= 1
                waiting[reader] -= 1
                if not waiting[reader]:
                    self._push(reader)
        if key >= 0:
            self.score[key] = 0
