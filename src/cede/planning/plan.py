"""The plan: which ops go to which delegate, and why every other answer lost. A value with JSON."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Collection
    from pathlib import Path

    from cede.types import Costs, Delegation, Loss, OpGraph, Refusal

SCHEMA = 1

UNASKED = "no partitioner was asked"
"""The reason of an op that `Plan.reasons` has none for."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Source:
    """The distribution that a record of this plan came from."""

    name: str
    distribution: str
    version: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """Every answer to every op, settled.

    Each pair of op and asked partitioner is in exactly one place: a part of a delegation, a
    refusal, or a loss.

    Attributes:
        fingerprint: of the graph it was made for; lowering refuses another graph.
        delegations: in execution order.
        refusals: what partitioners left, with reasons.
        losses: what they claimed and did not get, with reasons.
        kept: names of the ATen nodes that were kept whole for a claim.
        partitioners: those that were asked, in priority order, with where they came from.
        backends: those that got or may get a delegate, with where they came from.
        warnings: what the user should know about the plan as a whole.
        method: name of the method it is for.
        graph: the facts it was made from; not part of the JSON, None after loading.
        costs: what predictions are made from, None for no predictions; not part of the JSON.
    """

    fingerprint: str
    delegations: tuple[Delegation, ...] = ()
    refusals: tuple[Refusal, ...] = ()
    losses: tuple[Loss, ...] = ()
    kept: tuple[str, ...] = ()
    partitioners: tuple[Source, ...] = ()
    backends: tuple[Source, ...] = ()
    warnings: tuple[str, ...] = ()
    method: str = "forward"
    schema: int = SCHEMA
    graph: OpGraph | None = field(default=None, compare=False, repr=False)
    costs: Costs | None = field(default=None, compare=False, repr=False)

    def delegation_of(self) -> dict[str, Delegation]:
        """Map each delegated op's id to its delegation."""
        return {op: given for given in self.delegations for op in given.ops}

    def reasons(self) -> dict[str, str]:
        """Map each op that a partitioner refused or lost to all such reasons, in a line."""
        rows: list[Refusal | Loss] = [*self.refusals, *self.losses]
        found: dict[str, list[str]] = {}
        for row in rows:
            found.setdefault(row.op, []).append(f"{row.partitioner}: {row.reason}")
        return {op: "; ".join(told) for op, told in found.items()}

    def cut(self, id: str, ops: Collection[str]) -> Plan:
        """The plan with no other ops than these in one delegation; the others stay."""
        delegations = (each.cut(ops) if each.id == id else each for each in self.delegations)
        return replace(self, delegations=tuple(delegations))

    def to_json(self) -> str:
        """JSON text, stable: the same plan gives the same text."""
        from cede.planning.form import write_plan

        return write_plan(self)

    def _repr_html_(self) -> str:
        """For a notebook: small static tables."""
        from cede.planning.notebook import fragment

        return fragment(self)

    @classmethod
    def from_json(cls, text: str, origin: str = "plan") -> Plan:
        """Read a plan back.

        Args:
            text: what `to_json` wrote, perhaps edited by hand.
            origin: what error messages call it, such as the file's path.

        Raises:
            PlanError: no JSON, another schema, or a missing or wrong field, named by its path.
        """
        from cede.planning.form import read_plan

        return read_plan(text, origin)

    def save(self, path: Path) -> None:
        """Write the JSON to a file, whole or not at all."""
        from cede.files import write_whole

        write_whole(path, self.to_json().encode())
