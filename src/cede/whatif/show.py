"""What-ifs as a table and JSON."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from cede.reporting.comparison import comparison_data, rank_data
from cede.reporting.tables import as_markdown, as_text
from cede.reporting.views import ranking_table

if TYPE_CHECKING:
    from collections.abc import Sequence

    from cede.whatif.records import Comparison, Rank

SCHEMA = 1


def ranking_text(
    ranks: Sequence[Rank],
    most: int | None = None,
    *,
    markdown: bool = False,
    width: int | None = None,
) -> str:
    """The operators that would merge delegates, as a table; "" if there is none.

    Args:
        ranks: from `ranked`.
        most: how many rows at most.
        markdown: whether as Markdown.
        width: columns of the terminal.
    """
    table = ranking_table(ranks, most)
    if not table.rows:
        return ""
    return (as_markdown(table) if markdown else as_text(table, width)) + "\n"


def comparison_json(comparison: Comparison | None, ranks: Sequence[Rank] = ()) -> str:
    """A comparison and a ranking, with a schema."""
    data: dict[str, Any] = {"schema": SCHEMA}
    if comparison is not None:
        data.update(comparison_data(comparison))
    data["ranking"] = [rank_data(rank) for rank in ranks]
    return json.dumps(data, indent=1, ensure_ascii=False) + "\n"
