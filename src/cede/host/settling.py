"""Settling by plugins: the first valid answer stands, cede's own comes last."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

from cede.errors import PluginError
from cede.host.calls import calls_of
from cede.host.guard import Trouble, guarded
from cede.types import Settlement

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from cede.host.load import Plugin
    from cede.types import Contest

SHOWN = 3
"""How many faults of one settlement a warning tells."""


def settle(
    plugins: Sequence[Plugin], contest: Contest, seconds: float
) -> tuple[Settlement, tuple[str, ...]]:
    """The first valid settlement that a plugin gives, else cede's own; with warnings."""
    warnings: list[str] = []
    for plugin, call in calls_of(plugins, "cede_settle", {"contest": contest}):
        given = guarded(partial(_valid, call, contest), seconds, "seconds")
        if isinstance(given, Trouble):
            warnings.append(f"{plugin.loaded}: cede_settle is passed over: {given.reason}")
        elif given is not None:
            warnings.append(f"{plugin.loaded} settled this plan, not cede")
            return given, tuple(warnings)
    from cede.settle import settle as built_in

    return built_in(contest), tuple(warnings)


def _valid(call: Callable[[], Any], contest: Contest) -> Settlement | None:
    given = call()
    if given is None:
        return None
    if not isinstance(given, Settlement):
        raise TypeError(f"it returned {type(given).__name__}, not a Settlement")
    if wrong := _faults(contest, given):
        more = f"; and {len(wrong) - SHOWN} more" if wrong[SHOWN:] else ""
        raise PluginError("; ".join(wrong[:SHOWN]) + more)
    return given


def _faults(contest: Contest, given: Settlement) -> list[str]:
    from cede.settle import check_settlement

    wrong = check_settlement(contest.graph, given)
    claimed = {(c.partitioner, c.backend, op) for c in contest.claims for op in c.ops}
    placed = {
        (part.partitioner, delegation.backend, op)
        for delegation in given.delegations
        for part in delegation.parts
        for op in part.ops
    }
    lost = {(loss.partitioner, loss.backend, loss.op) for loss in given.losses}
    for partitioner, backend, op in sorted((placed | lost) - claimed):
        if not _follows(contest, op):
            wrong.append(f"{partitioner} did not claim {op} for {backend}")
    for partitioner, backend, op in sorted(claimed - placed - lost):
        wrong.append(
            f"{op}, claimed by {partitioner} for {backend}, is in no delegation and no loss"
        )
    for partitioner, backend, op in sorted(placed & lost):
        wrong.append(f"{op} is given to {partitioner} for {backend} and lost by it too")
    return wrong


def _follows(contest: Contest, op: str) -> bool:
    """Whether an op may go along unclaimed: with the producer, or the control flow around it."""
    found = contest.graph.op(op) if op in contest.graph else None
    return found is not None and (found.target == "getitem" or bool(found.scope))
