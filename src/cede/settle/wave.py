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
    from collections.abc import Iterator, Sequence

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
    for attempt in (_from_both_ends, _in_turn):
        for runs, groups, least in attempt(feeds, keys, count):
            floor = max(floor, least)
            if runs < fewest:
                fewest, best = runs, groups
            if fewest == floor:
                return best
    return best


def _from_both_ends(feeds: Feeds, keys: list[int], count: int) -> Iterator[Attempt]:
    ground = _Ground(feeds, readers(feeds), keys, count, range(len(feeds)))
    yield from _both(ground)
    yield from _both(ground.turned())


def _both(ground: _Ground) -> Iterator[Attempt]:
    for bonus in (0, 1):
        runs, groups = _Run(ground, bonus).go()
        yield runs, groups, ground.floor


def _in_turn(feeds: Feeds, keys: list[int], count: int) -> Iterator[Attempt]:
    yield (*in_turn(feeds, keys, count), 0)


class _Ground:
    """What all runs over one graph share; nothing in it changes.

    Attributes:
        order: the nodes, topologically sorted.
        slot: per taken node a number for its level among those of its key.
        height: delegates on the longest way from each node to the end.
        left: per slot the number of its nodes.
        blocked: per slot the number of edges into its nodes from other takers.
        starts: per key its first slot; the slots of a key follow one another by level.
        floor: fewer runs than this can't be: what every key needs if it were alone.
    """

    __slots__ = (
        "blocked", "count", "feeds", "floor", "height", "keys", "left", "order", "reads", "slot",
        "starts",
    )  # fmt: skip

    def __init__(
        self, feeds: Feeds, reads: Feeds, keys: list[int], count: int, order: Sequence[int]
    ) -> None:
        self.feeds, self.reads, self.keys, self.count, self.order = feeds, reads, keys, count, order
        self.slot = [-1] * len(feeds)
        self.left: list[int] = []
        self.blocked: list[int] = []
        self.starts: list[int] = []
        for key in range(count):
            self._measure(key)
        self.floor = len(self.left)
        self.height = self._heights()

    def turned(self) -> _Ground:
        """The same graph seen from its other end."""
        return _Ground(self.reads, self.feeds, self.keys, self.count, self.order[::-1])

    def _measure(self, key: int) -> None:
        keys, slot, start = self.keys, self.slot, len(self.left)
        alone = levels(self.feeds, keys, key, self.order)
        mine = [node for node, taken in enumerate(keys) if taken == key]
        places = {level: start + i for i, level in enumerate(sorted({alone[n] for n in mine}))}
        left, blocked = [0] * len(places), [0] * len(places)
        for node in mine:
            slot[node] = place = places[alone[node]]
            left[place - start] += 1
            for producer in self.feeds[node]:
                if keys[producer] != key:
                    blocked[place - start] += 1
        self.starts.append(start)
        self.left += left
        self.blocked += blocked

    def _heights(self) -> list[int]:
        keys, height = self.keys, [0] * len(self.feeds)
        for node in reversed(self.order):
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
        self.left, self.blocked = ground.left.copy(), ground.blocked.copy()
        self.low = ground.starts.copy()
        self.score = [0] * (ground.count + 1)  # the last, here and in ready: fallback
        self.ready: list[list[int]] = [[] for _ in range(ground.count + 1)]
        self.waiting = list(map(len, ground.feeds))
        self.group = [-1] * len(ground.feeds)

    def go(self) -> tuple[int, list[int]]:
        """The number of runs, and the run of every node (-1: fallback)."""
        ground = self.ground
        for node in ground.order:
            if not self.waiting[node]:
                key = ground.keys[node]
                self.ready[key].append(node)
                self.score[key] = max(self.score[key], ground.height[node])
        runs = 0
        while True:
            self._drain(-1, -1)
            key = self._next()
            if key < 0:
                return runs, self.group
            self._drain(key, runs)
            runs += 1

    def _next(self) -> int:
        best, most = -1, (-1, False)
        left, low = self.left, self.low
        for key in range(self.ground.count):
            if not self.ready[key]:
                continue
            while not left[low[key]]:
                low[key] += 1
            free = not self.blocked[low[key]]
            score = self.score[key] + self.bonus * free
            if (score, free) > most:
                best, most = key, (score, free)
        return best

    def _drain(self, key: int, run: int) -> None:
        ground, waiting, ready = self.ground, self.waiting, self.ready
        keys, slot, reads, height = ground.keys, ground.slot, ground.reads, ground.height
        left, blocked, score, group = self.left, self.blocked, self.score, self.group
        queue = ready[key]
        while queue:
            node = queue.pop()
            if key >= 0:
                group[node] = run
                left[slot[node]] -= 1
            for reader in reads[node]:
                taker = keys[reader]
                if taker != key and taker >= 0:
                    blocked[slot[reader]] -= 1
                if waiting[reader] == 1:
                    ready[taker].append(reader)
                    if height[reader] > score[taker]:
                        score[taker] = height[reader]
                waiting[reader] -= 1
        score[key] = 0
