"""What-ifs as sentences, a table and JSON."""

from __future__ import annotations

import json
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from cede.costs import seconds
from cede.reporting.tables import Table, as_markdown, as_text

if TYPE_CHECKING:
    from collections.abc import Sequence

    from cede.whatif.records import Comparison, Rank

SCHEMA = 1


def sentence(given: Comparison) -> str:
    """ "supporting aten.group_norm on npu: 6 -> 1 delegates, 20 -> 26 of 30 ops, +12 % ..." """
    old, new = given.before, given.after
    line = (
        f"{given.change}: {old.delegates} -> {new.delegates} delegates,"
        f" {old.delegated} -> {new.delegated} of {new.ops} ops,"
        f" {_points(new.delegated_flops - old.delegated_flops, new.flops)} FLOPs covered,"
        f" {_points(new.delegated_weight_bytes - old.delegated_weight_bytes, new.weight_bytes)}"
        " weight bytes covered"
    )
    then, now = given.seconds_before, given.seconds_after
    if then is None or now is None:
        return line
    return f"{line}, predicted {seconds(then)} -> {seconds(now)} a call"


def _predicted(given: Comparison) -> dict[str, float]:
    if given.seconds_before is None or given.seconds_after is None:
        return {}
    return {"seconds_before": given.seconds_before, "seconds_after": given.seconds_after}


def _points(more: int, whole: int) -> str:
    """ "+12 %": a difference in per cent of the whole; 0 only where it is nothing."""
    if not more or not whole:
        return "+0 %"
    percent = 100 * more / whole
    shown = f"{percent:+.1f}"
    if shown in ("+0.0", "-0.0"):
        shown = f"{shown[0]}0.1"
    return f"{shown.removesuffix('.0')} %"


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
    table = Table(
        title="Would merge most, if supported",
        header=("operator", "backend", "ops", "delegates", "FLOPs", "now"),
        rows=[
            (
                rank.kind,
                rank.backend,
                str(len(rank.ops)),
                f"{rank.comparison.before.delegates} -> {rank.comparison.after.delegates}",
                _points(rank.flops, rank.comparison.after.flops),
                str(rank.reason),
            )
            for rank in [rank for rank in ranks if rank.merged > 0][:most]
        ],
        right=frozenset({2}),
    )
    if not table.rows:
        return ""
    return (as_markdown(table) if markdown else as_text(table, width)) + "\n"


def comparison_json(comparison: Comparison | None, ranks: Sequence[Rank] = ()) -> str:
    """A comparison and a ranking, with a schema."""
    data: dict[str, Any] = {"schema": SCHEMA}
    if comparison is not None:
        data.update(_plain(comparison))
    data["ranking"] = [
        {
            "operator": rank.kind,
            "backend": rank.backend,
            "ops": list(rank.ops),
            "touches": rank.touches,
            "code": rank.reason.code.value,
            "detail": rank.reason.detail,
            **_plain(rank.comparison),
        }
        for rank in ranks
    ]
    return json.dumps(data, indent=1, ensure_ascii=False) + "\n"


def _plain(given: Comparison) -> dict[str, Any]:
    return {
        "change": given.change,
        "text": str(given),
        "before": asdict(given.before),
        "after": asdict(given.after),
        "gained": list(given.gained),
        "lost": list(given.lost),
        **_predicted(given),
    }
