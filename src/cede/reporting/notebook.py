"""A report in a notebook: small static tables."""

from __future__ import annotations

from html import escape
from typing import TYPE_CHECKING

from cede.planning.notebook import cut
from cede.reporting.render import headlines, short

if TYPE_CHECKING:
    from cede.reporting.records import Report


def fragment(report: Report) -> str:
    """The verdict and the tables without a line for each op."""
    first, *others = headlines(report)
    lines = [f"<p><b>{escape(first)}</b></p>", *(f"<p>{escape(line)}</p>" for line in others)]
    tables = (cut(t.title, t.header, t.rows, set(t.right)) for t in short(report))
    warnings = "".join(f"<li>{escape(warning)}</li>" for warning in report.plan.warnings)
    told = f"<p><b>Warnings</b></p><ul>{warnings}</ul>\n" if warnings else ""
    return "\n".join(lines) + "\n" + "".join(tables) + told
