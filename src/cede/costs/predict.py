"""What a settlement or a plan would cost."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Protocol

from cede.costs.model import CostModel

if TYPE_CHECKING:
    from collections.abc import Mapping

    from cede.types import Costs, Delegation, OpGraph


class Settled(Protocol):
    """A settlement or a plan."""

    @property
    def delegations(self) -> tuple[Delegation, ...]:
        """What became delegates."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DelegatePrediction:
    """Predicted seconds of one call of a delegate.

    Attributes:
        id: of its delegation.
        compute: of its ops.
        border: of the values that enter and leave it.
        launch: of calling it.
    """

    id: str
    compute: float
    border: float
    launch: float

    @property
    def seconds(self) -> float:
        """All of it."""
        return self.compute + self.border + self.launch


@dataclass(frozen=True, slots=True, kw_only=True)
class Prediction:
    """Predicted seconds of one call of the program.

    Attributes:
        delegates: one a delegation, in the same order.
        fallback: of the ops that no delegate takes.
        left: of each of these, by id; a getitem and the like is not among them.
    """

    delegates: tuple[DelegatePrediction, ...]
    fallback: float
    left: Mapping[str, float] = field(default_factory=dict)

    @property
    def border(self) -> float:
        """Seconds of all borders."""
        return sum(given.border for given in self.delegates)

    @property
    def seconds(self) -> float:
        """All of it: what cost mode makes as small as it can."""
        return self.fallback + sum(given.seconds for given in self.delegates)


def predicted(graph: OpGraph, settled: Settled, costs: Costs) -> Prediction:
    """The seconds that one call of a settled program should take. O(V+E).

    The sum over ops of the seconds on who has them, over delegates of their launch, and over the
    values that cross a border of `Costs`' border seconds: one that leaves a delegate counts once
    there, and once for each delegate that it enters.

    Args:
        graph: the facts.
        settled: a settlement or a plan for that graph.
        costs: with rates for each backend that has a delegation.

    Raises:
        KeyError: a delegation of a backend without rates, or of an unknown op.
    """
    model = CostModel(graph, costs)
    of = [-1] * len(graph.ops)
    for number, given in enumerate(settled.delegations):
        for id in given.ops:
            of[graph.position(id)] = number
    backends = [given.backend for given in settled.delegations]
    compute, left = _compute(model, of, backends)
    border = _border(model, of, backends)
    return Prediction(
        delegates=tuple(
            DelegatePrediction(
                id=given.id,
                compute=compute[i],
                border=border[i],
                launch=model.launch(given.backend),
            )
            for i, given in enumerate(settled.delegations)
        ),
        fallback=sum(left.values()),
        left=left,
    )


def _compute(
    model: CostModel, of: list[int], backends: list[str]
) -> tuple[list[float], dict[str, float]]:
    """Seconds of the ops of each delegate together, and of each of the others."""
    found: list[float] = [0.0] * len(backends)
    left: dict[str, float] = {}
    for op, number in enumerate(of):
        if number >= 0:
            found[number] += model.compute(backends[number])[op]
        elif not model.graph.ops[op].bookkeeping:
            left[model.graph.ops[op].id] = model.compute("")[op]
    return found, left


def _border(model: CostModel, of: list[int], backends: list[str]) -> list[float]:
    """Seconds of the values that cross the border of each delegate."""
    found = [0.0] * len(backends)
    for value in model.values:
        for number in model.crossed(value, of):
            found[number] += model.crossing(value, backends[number])
    return found
