"""Labels by minimum cuts: exact for one backend, by expansion moves for several.

An expansion move lets every op keep its label or take one given label, and finds the cheapest of
all these choices by one cut (Y. Boykov, O. Veksler and R. Zabih, "Fast Approximate Energy
Minimization via Graph Cuts", 2001). With one backend, the one move from the fallback is all there
is. What is minimised: compute, and borders counted per taker; how many delegates a taker's ops
make, and so launches and values that enter two of them, is left to `cost_climb`.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from cede.settle.cost_cut import Cut

if TYPE_CHECKING:
    from cede.settle.cost_field import Field, Labels
    from cede.settle.cost_fold import Fold

SWEEPS = 4
"""How often all labels are tried; expansion has settled long before on real graphs."""


def expanded(field: Field | Fold, labels: Labels, share: float) -> Labels:
    """Labels after expansion moves over all takers until none changes anything.

    Args:
        field: the ground.
        labels: where to start.
        share: part of a launch that is added to each value that enters a delegate.
    """
    count = len(field.takers)
    if count == 1:
        return _expand(field, field.nothing(), 0, share)
    idle = 0
    for taker in [*range(count), -1] * SWEEPS:
        before = labels
        labels = _expand(field, labels, taker, share)
        idle = idle + 1 if labels == before else 0
        if idle == count:  # the one before these has nothing to change either
            break
    return labels


def _expand(field: Field | Fold, labels: Labels, taker: int, share: float) -> Labels:
    cut = Cut(len(labels))
    at = [cut.sink] * len(labels)
    for op, label in enumerate(labels):
        if label == taker:
            at[op] = cut.source
        elif taker < 0 or op in field.cover[taker]:
            at[op] = op
            cut.pay(op, cut.sink, field.seconds[taker][op])
            cut.pay(cut.source, op, field.seconds[label][op])
    _keep_whole(cut, field, labels, taker, at)
    for number, (maker, readers) in enumerate(field.ends):
        _add_value(cut, field, labels, taker, share, number, maker, readers, at)
    inside = cut.solve()
    return [taker if inside[node] else labels[op] for op, node in enumerate(at)]


def _keep_whole(cut: Cut, field: Field | Fold, labels: Labels, taker: int, at: list[int]) -> None:
    """An op comes with all of its piece, and leaves with all whose piece it is in."""
    for op, label in enumerate(labels):
        if taker >= 0 and at[op] == op:
            for other in field.cover[taker][op]:
                cut.pay(op, at[other], math.inf)
        if label >= 0 and label != taker:
            for other in field.cover[label][op]:
                cut.pay(at[other], at[op], math.inf)


def _add_value(
    cut: Cut,
    field: Field | Fold,
    labels: Labels,
    taker: int,
    share: float,
    number: int,
    maker: int,
    readers: list[int],
    at: list[int],
) -> None:
    """What a value costs at the borders, whoever switches."""
    leaves = field.leaving[number]
    home = labels[maker] if maker >= 0 else -1
    made = at[maker] if maker >= 0 else cut.source if taker < 0 else cut.sink
    read = [at[reader] for reader in readers]
    if taker >= 0:
        price = field.prices[taker][number]
        others = [cut.sink] if leaves else read
        cut.pay_if_any_out(made, others, price)
        cut.pay_if_any_in(read, made, price + share * field.launch(taker) * field.times[number])
    if home >= 0 and home != taker:
        price = field.prices[home][number]
        if leaves or any(labels[reader] != home for reader in readers):
            cut.pay(cut.source, made, price)
        else:
            cut.pay_if_any_in(read, made, price)
    for label in sorted({labels[reader] for reader in readers} - {-1, taker}):
        price = field.prices[label][number] + share * field.launch(label) * field.times[number]
        own = [at[reader] for reader in readers if labels[reader] == label]
        cut.pay_if_any_out(made if home == label else cut.source, own, price)
