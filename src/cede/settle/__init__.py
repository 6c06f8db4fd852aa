"""Settling: rival claims to disjoint, convex delegations whose quotient graph is acyclic.

    pieces -> hold (who has which op) -> nodes (contract) -> untangle -> divide -> limits -> outcome

A piece that can't stay (it would make a cycle, or its delegate falls to a limit) leaves the contest
with its reason, and the contest goes on without it, so that others may have its ops. Every step is
O(V+E); the rounds are few, as each tangle gives up at least one piece a round and twice as many
each round after the first ones.
"""

from __future__ import annotations

import gc
from contextlib import contextmanager
from typing import TYPE_CHECKING

from cede.errors import ConfigError
from cede.settle.index import index_graph
from cede.settle.outcome import delegations, losses
from cede.settle.pieces import cut
from cede.settle.rounds import play
from cede.settle.verify import check_settlement
from cede.types import Contest, Settlement

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = ["check_settlement", "settle"]

MODES = ("priority", "cost")


def settle(contest: Contest) -> Settlement:
    """Decide who gets which op. Pure and deterministic; names never decide, positions do.

    "priority": the first partitioner in `contest.order` that claims an op has it. A claim goes
    together or not at all unless it is divisible; claims of one backend with the same specs that
    overlap are joined. A getitem goes with its producer, a control-flow op with all its branches.
    "cost": the same, but claims are left out where that makes the program faster by
    `contest.costs`; never slower than "priority" by these (`cost`).
    Delegates: the fewest possible for one backend in a scope (`label`), few for several (`wave`).

    Every pair of claimed op and partitioner is in exactly one place: a part or a loss.

    Raises:
        PluginError: a claim by a partitioner that is not in the order, or of an unknown op.
        ConfigError: an unknown mode, or mode "cost" without the costs it needs.
    """
    if contest.mode not in MODES:
        raise ConfigError(f"settle: {contest.mode!r} is no mode; known: {', '.join(MODES)}")
    with _collector_paused():
        index = index_graph(contest.graph)
        pieces = cut(contest, index)
        if contest.mode == "cost":
            from cede.settle.cost import cheapest

            held, groups, out = cheapest(contest, index, pieces)
        else:
            held, groups, out = play(contest, index, pieces)
        order = tuple(dict.fromkeys(contest.order))
        return Settlement(
            delegations=delegations(index, held, groups, order),
            losses=losses(index, held, pieces, out, order),
        )


@contextmanager
def _collector_paused() -> Iterator[None]:
    # Settling makes many small lists and no cycles: collecting would only walk them.
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            gc.enable()
