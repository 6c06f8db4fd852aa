"""A report as text and Markdown."""

from __future__ import annotations

from typing import TYPE_CHECKING

from cede.costs import seconds
from cede.reporting.borders import met
from cede.reporting.tables import as_markdown, as_text, bold, quantity, share, yellow
from cede.reporting.views import (
    advice_table,
    borders_table,
    delegates_table,
    kernels_table,
    modules_table,
    ops_table,
    reasons_table,
    shared_table,
    states_table,
    types_table,
)

if TYPE_CHECKING:
    from cede.costs import Prediction, Timing
    from cede.reporting.memory import MemoryUse
    from cede.reporting.records import Report, Totals
    from cede.reporting.tables import Table


def verdict(sums: Totals) -> str:
    """One line with the shares that matter."""
    line = (
        f"{sums.delegated} of {sums.ops} ops ({share(sums.delegated, sums.ops)}) in "
        f"{sums.delegates} delegate{'' if sums.delegates == 1 else 's'}, "
        f"{share(sums.delegated_flops, sums.flops)} of FLOPs, "
        f"{share(sums.delegated_weight_bytes, sums.weight_bytes)} of weight bytes"
    )
    apart = f"{sums.bookkeeping} bookkeeping op{'' if sums.bookkeeping == 1 else 's'} apart"
    return f"{line}; {apart}" if sums.bookkeeping else line


def foreseen(found: Prediction) -> str:
    """One line with predicted seconds and where they go."""
    inside = sum(given.compute + given.launch for given in found.delegates)
    return (
        f"predicted {seconds(found.seconds)} a call: {seconds(inside)} in delegates, "
        f"{seconds(found.border)} at their borders, {seconds(found.fallback)} outside"
    )


def seen(timing: Timing) -> str:
    """One line with measured seconds and where they go: tracing that takes time of its own."""
    line = f"measured {seconds(timing.seconds)} a call"
    if timing.delegates or timing.ops:
        line += (
            f"; while it is traced, {seconds(sum(timing.delegates.values()))} in delegates,"
            f" {seconds(sum(timing.ops.values()))} outside"
        )
    return line


def planned(memory: MemoryUse) -> str:
    """One line with the memory for the values of a call."""
    line = f"{quantity(memory.planned, 'B')} planned for the values of a call"
    if memory.live == memory.example_live:
        return line
    return f"{line}; the example's sizes need {quantity(memory.example_live, 'B')} of it"


def text(report: Report, width: int | None = None, rich: bool = False) -> str:
    """Verdict, what to do, delegates, ops, totals and warnings."""
    tables = [as_text(table, width, rich=rich) for table in whole(report)]
    return _document(report, tables, "", rich)


def summary(report: Report, width: int | None = None, rich: bool = False) -> str:
    """Verdict, what to do, delegates, and the left ops counted by reason."""
    tables = [as_text(table, width, rich=rich) for table in short(report)]
    return _document(report, tables, "", rich)


def markdown(report: Report) -> str:
    """The tables of `text`, as Markdown."""
    return _document(report, [as_markdown(table) for table in whole(report)], "## ")


def markdown_summary(report: Report) -> str:
    """The tables of `summary`, as Markdown."""
    return _document(report, [as_markdown(table) for table in short(report)], "## ")


def whole(report: Report) -> list[Table]:
    """All tables that have a row."""
    made = (
        advice_table, delegates_table, borders_table, ops_table, states_table, shared_table,
        kernels_table, modules_table, types_table,
    )  # fmt: skip
    tables = [table for table in (make(report) for make in made) if table.rows]
    return [*tables, *(report.quantization.tables if report.quantization else ())]


def short(report: Report) -> list[Table]:
    """The tables without a line for each op, those that have a row."""
    made = (advice_table, delegates_table, borders_table, reasons_table, states_table)
    return [table for table in (make(report) for make in made) if table.rows]


def headlines(report: Report) -> list[str]:
    """The verdict, and one line each for predicted time, measured time and planned memory."""
    lines = [verdict(report.totals)]
    if report.borders:
        lines.append(met(report.borders))
    if report.quantization is not None:
        lines.append(report.quantization.verdict)
    if report.prediction is not None:
        lines.append(foreseen(report.prediction))
    if report.timing is not None:
        lines.append(seen(report.timing))
    if report.memory is not None:
        lines.append(planned(report.memory))
    return lines


def _document(report: Report, tables: list[str], head: str, rich: bool = False) -> str:
    first, *others = headlines(report)
    parts = ["\n".join([bold(first) if rich else first, *others]), *tables]
    if report.plan.warnings:
        told = [f"- {w}" for w in report.plan.warnings]
        title = f"{head}Warnings"
        if rich:
            title, told = bold(title), [yellow(line) for line in told]
        parts.append("\n".join([title, *told]))
    return "\n\n".join(parts) + "\n"
