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
from cede.settle.cost_fold import Fold, alike
from cede.settle.cost_reasons import explained

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from cede.settle.cost_field import Labels
    from cede.settle.hold import Hold
    from cede.settle.index import Index
    from cede.settle.pieces import Piece
    from cede.types import Contest, Reason

SHARES = (0.0, 0.25, 0.5, 1.0)
"""Parts of a launch that cuts add to each value that enters a delegate, one start each."""

FEW_SHARES, LARGE = (0.0, 0.5), 2000
"""The parts for more ops than that, those that are alike counted once."""

WORTH = 2
"""Repetitions are folded where that leaves at most one of so many ops."""


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
    of = alike(field)
    search = Search(contest, field, of)
    search.offer(field.nothing())
    for labels in _cuts(field, of):
        search.offer(labels)
    if len(field.takers) > 1:
        search.offer(expanded(field, search.best.labels, 0.0))
    search.climb()
    best = search.best
    return best.held, best.groups, explained(field, best)


def _cuts(field: Field, of: Sequence[int]) -> Iterator[Labels]:
    """Labels by cuts: of the folded graph where that is much smaller, else of all of it."""
    if not field.takers:
        return
    fold = Fold(field, list(of)) if (max(of) + 1) * WORTH <= len(of) > LARGE else None
    ground = fold or field
    labels = ground.nothing()
    for share in SHARES if len(labels) <= LARGE else FEW_SHARES:
        labels = expanded(ground, labels, share)
        yield fold.unfolded(labels) if fold else labels
