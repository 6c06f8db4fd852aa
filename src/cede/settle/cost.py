"""Cost mode: who takes which op so that the whole program takes the fewest seconds.

    field (prices) -> expand (minimum cuts) -> climb (delegates, launches) -> reasons

What is minimised is what `cede.costs.predicted` tells of the outcome. Labels that cuts find are
played through the same rounds as in priority mode, with the pieces left out that they don't
choose, so that whatever holds of a settlement holds here. Priority's own outcome competes as well.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from cede.errors import ConfigError
from cede.settle.cost_climb import Search
from cede.settle.cost_expand import expanded
from cede.settle.cost_field import Field
from cede.settle.cost_reasons import explained

if TYPE_CHECKING:
    from collections.abc import Sequence

    from cede.settle.hold import Hold
    from cede.settle.index import Index
    from cede.settle.pieces import Piece
    from cede.types import Contest, Reason

SHARES = (0.0, 0.25, 0.5, 1.0)
"""Parts of a launch that cuts add to each value that enters a delegate, one start each."""

FEW_SHARES, LARGE = (0.0, 0.5), 2000
"""The parts for graphs of more ops than that."""


def cheapest(
    contest: Contest, index: Index, pieces: Sequence[Piece]
) -> tuple[Hold, list[int], dict[int, Reason]]:
    """Who holds which op, the delegate of every op (-1: none), and pieces that left.

    Raises:
        ConfigError: the contest has no costs, or none for a backend that is claimed for.
    """
    if contest.costs is None:
        raise ConfigError("settle: mode 'cost' needs costs; set Contest.costs")
    lacking = {piece.claim.backend for piece in pieces} - contest.costs.backends.keys()
    if lacking:
        raise ConfigError(
            f"settle: {contest.costs.origin} has no rates for {', '.join(sorted(lacking))}"
        )
    field = Field(index, pieces, contest.costs, sorted(contest.wanted))
    search = Search(contest, field)
    search.offer(field.nothing())
    labels = field.nothing()
    shares = SHARES if index.size <= LARGE else FEW_SHARES
    for share in shares if field.takers else ():
        labels = expanded(field, labels, share)
        search.offer(labels)
    if len(field.takers) > 1:
        search.offer(expanded(field, search.best.labels, 0.0))
    search.climb()
    best = search.best
    return best.held, best.groups, explained(field, best)
