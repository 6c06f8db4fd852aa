"""A plan in a notebook: small static tables."""

from __future__ import annotations

from collections import Counter
from html import escape
from typing import TYPE_CHECKING

from cede.markup import html_table

if TYPE_CHECKING:
    from collections.abc import Sequence

    from cede.planning.plan import Plan
    from cede.types import Loss, Refusal

MOST = 50
"""How many rows a table has at most."""


def fragment(plan: Plan) -> str:
    """The delegations, and the other answers counted by partitioner and reason code."""
    delegations = [
        (given.id, given.backend, "+".join(part.partitioner for part in given.parts),
         str(len(given.ops)))
        for given in plan.delegations
    ]  # fmt: skip
    rows: list[Refusal | Loss] = [*plan.refusals, *plan.losses]
    counts = Counter((row.partitioner, row.reason.code.value) for row in rows)
    answers = [
        (*names, str(n)) for names, n in sorted(counts.items(), key=lambda it: (-it[1], it[0]))
    ]
    warnings = "".join(f"<li>{escape(warning)}</li>" for warning in plan.warnings)
    delegated = sum(len(given.ops) for given in plan.delegations)
    return (
        f"<p><b>Plan</b> for {escape(plan.method)}: {delegated} ops in"
        f" {len(plan.delegations)} delegates</p>\n"
        + cut("Delegates", ("delegate", "backend", "partitioners", "ops"), delegations, {3})
        + cut("Refused or lost", ("partitioner", "reason", "answers"), answers, {2})
        + (f"<p><b>Warnings</b></p><ul>{warnings}</ul>\n" if warnings else "")
    )


def cut(caption: str, header: Sequence[str], rows: Sequence[Sequence[str]], right: set[int]) -> str:
    """A table of the first rows, and how many more there are; "" without rows."""
    if not rows:
        return ""
    more = f"<p>and {len(rows) - MOST} more</p>\n" if len(rows) > MOST else ""
    return html_table(caption, header, rows[:MOST], right) + more
