"""Where the time of a program goes, as text and Markdown."""

from __future__ import annotations

from typing import TYPE_CHECKING

from cede.costs import seconds
from cede.reporting.render import foreseen, seen
from cede.reporting.tables import Table, as_markdown, as_text
from cede.reporting.views import spelt

if TYPE_CHECKING:
    from cede.reporting.records import Report, Row

HEADS = ("predicted", "measured", "predicted / measured")


def bench_text(
    report: Report, width: int | None = None, *, markdown: bool = False, kernels: bool = False
) -> str:
    """The whole, delegates, ops left with the slowest first, and modules.

    Args:
        report: with a timing.
        width: columns of the terminal.
        markdown: whether as Markdown.
        kernels: whether to add what delegates ran.
    """
    assert report.timing is not None  # noqa: S101  (a report without one has `text`)
    head = [] if report.prediction is None else [foreseen(report.prediction)]
    head.append(f"{seen(report.timing)} ({report.timing.calls} calls, {report.timing.runtime})")
    tables = [_delegates(report), _left(report)]
    if kernels:
        tables.append(_kernels(report))
    shown = [
        as_markdown(table) if markdown else as_text(table, width) for table in tables if table.rows
    ]
    return "\n\n".join(["\n".join(head), *shown]) + "\n"


def _delegates(report: Report) -> Table:
    modules: dict[str, list[str]] = {}
    for row in report.rows:
        if row.delegate and not row.bookkeeping:
            modules.setdefault(row.delegate, []).append(row.module)
    return Table(
        title="Delegates",
        header=("delegate", "backend", "ops", *HEADS, "modules"),
        rows=[
            (
                given.id,
                given.backend,
                str(given.ops),
                *_both(given.predicted_seconds, given.measured_seconds),
                _span(modules.get(given.id, [])),
            )
            for given in report.by_delegate
        ],
        right=frozenset({2, 3, 4, 5}),
    )  # fmt: skip


def _left(report: Report) -> Table:
    took = report.timing.ops if report.timing else {}
    guess = report.prediction.left if report.prediction else {}
    rows = sorted(report.left, key=lambda row: -took.get(row.op, 0.0))
    return Table(
        title="Ops left, slowest first",
        header=("op", *HEADS, "where"),
        rows=[(row.op, *_both(guess.get(row.op), took.get(row.op)), _where(row)) for row in rows],
        right=frozenset({1, 2, 3}),
    )


def _kernels(report: Report) -> Table:
    found = report.timing.kernels if report.timing else {}
    return Table(
        title="Kernels of delegates",
        header=("delegate", "measured", "kernel"),
        rows=[
            (id, seconds(took), name) for id, each in found.items() for name, took in each
        ],
        right=frozenset({1}),
    )  # fmt: skip


def _both(guess: float | None, took: float | None) -> tuple[str, str, str]:
    ratio = f"{guess / took:.2f}" if guess is not None and took else "-"
    return spelt(guess), spelt(took), ratio


def _span(modules: list[str]) -> str:
    """The first and the last module of a delegate."""
    if not modules:
        return ""
    first, last = modules[0] or "(top)", modules[-1] or "(top)"
    return first if first == last else f"{first} .. {last}"


def _where(row: Row) -> str:
    return " ".join(part for part in (row.module, row.source) if part)
