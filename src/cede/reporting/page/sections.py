"""The parts of the page that need no script."""

from __future__ import annotations

from html import escape
from typing import TYPE_CHECKING

from cede.costs import seconds
from cede.reporting.comparison import points
from cede.reporting.tables import Table, as_html, quantity, share
from cede.reporting.views import (
    borders_table,
    delegates_table,
    kernels_table,
    modules_table,
    reasons_table,
    shared_table,
    states_table,
    types_table,
)

if TYPE_CHECKING:
    from cede.reporting.content import Coverage
    from cede.reporting.records import Report

NAMES = {
    "ops": "Ops",
    "flops": "FLOPs",
    "weight_bytes": "Weight bytes",
    "predicted_seconds": "Predicted time",
    "measured_seconds": "Measured time",
}


def coverage(report: Report) -> str:
    """One meter for each kind of coverage."""
    return "".join(_meter(given) for given in report.coverage)


def _meter(given: Coverage) -> str:
    name, part = NAMES[given.of], _share(given)
    of = f"{_amount(given, given.delegated)} of {_amount(given, given.whole)}"
    ratio = given.delegated / given.whole if given.whole else 0
    return (
        f'<div class="card"><span>{name} in delegates</span><b>{part}</b>'
        f'<meter min="0" max="1" value="{ratio:.4f}" aria-label="{name} in delegates">{part}'
        f"</meter><span>{escape(of)}</span></div>"
    )


def _share(given: Coverage) -> str:
    if given.of.endswith("seconds"):  # too small to be counted in whole numbers
        return share(round(given.delegated * 1e12), round(given.whole * 1e12))
    return share(int(given.delegated), int(given.whole))


def _amount(given: Coverage, value: float) -> str:
    if given.of.endswith("seconds"):
        return seconds(value)
    return quantity(int(value), "B" if given.of == "weight_bytes" else "")


def sections(report: Report) -> str:
    """Delegates, what-ifs, modules and the rest; cells link to the ops they are about."""
    shown = [
        (delegates_table(report), {0: "delegate"}, True),
        (borders_table(report), {0: "op", 3: "op"}, True),
        (whatif_table(report), {0: "rank"}, True),
        (reasons_table(report), {1: "code"}, True),
        (modules_table(report), {0: "module"}, False),
        (kernels_table(report), {0: "left"}, False),
        (shared_table(report), {0: "constant"}, False),
        (states_table(report), {0: "state"}, False),
        (types_table(report), {}, False),
        *((table, {0: "module"}, False) for table in _quantized(report)),
    ]
    parts = [
        _section(table.title, as_html(table, links), opened)
        for table, links, opened in shown
        if table.rows
    ]
    if report.plan.warnings:
        rows = "".join(f"<li>{escape(warning)}</li>" for warning in report.plan.warnings)
        parts.insert(0, _section("Warnings", f"<ul>{rows}</ul>", True))
    return "\n".join(parts)


def _quantized(report: Report) -> list[Table]:
    return report.quantization.tables if report.quantization is not None else []


def _section(title: str, body: str, opened: bool) -> str:
    state = " open" if opened else ""
    head = f"<details{state}><summary>{escape(title)}</summary>"
    return f'{head}<div class="wide">{body}</div></details>'


def whatif_table(report: Report) -> Table:
    """Every operator that was tried, also those that would merge nothing."""
    timed = any(rank.comparison.seconds_after is not None for rank in report.ranking)
    rows = []
    for rank in report.ranking:
        old, new = rank.comparison.before, rank.comparison.after
        then, now = rank.comparison.seconds_before, rank.comparison.seconds_after
        told = "-" if then is None or now is None else f"{seconds(then)} -> {seconds(now)}"
        rows.append(
            (
                rank.kind,
                rank.backend,
                str(len(rank.ops)),
                f"{old.delegates} -> {new.delegates}",
                f"{old.delegated} -> {new.delegated}",
                points(rank.flops, new.flops),
                points(new.delegated_weight_bytes - old.delegated_weight_bytes, new.weight_bytes),
                *((told,) if timed else ()),
                str(rank.reason),
            )
        )
    extra = ("predicted",) if timed else ()
    return Table(
        title="What if a backend supported it",
        header=("operator", "backend", "ops", "delegates", "ops covered", "FLOPs", "weight bytes",
                *extra, "now"),
        rows=rows,
        right=frozenset(range(2, 7 + len(extra))),
    )  # fmt: skip
