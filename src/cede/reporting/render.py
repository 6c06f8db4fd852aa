"""A report as text and Markdown."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from cede.costs import seconds
from cede.reporting.borders import met
from cede.reporting.tables import Table, as_markdown, as_text, quantity, share

if TYPE_CHECKING:
    from cede.costs import Prediction, Timing
    from cede.reporting.memory import MemoryUse
    from cede.reporting.records import Report, Row, Totals


def verdict(sums: Totals) -> str:
    """One line with the shares that matter."""
    line = (
        f"{sums.delegated} of {sums.ops} ops ({share(sums.delegated, sums.ops)}) in "
        f"{sums.delegates} delegate{'' if sums.delegates == 1 else 's'}, "
        f"{share(sums.delegated_flops, sums.flops)} of FLOPs, "
        f"{share(sums.delegated_weight_bytes, sums.weight_bytes)} of weight bytes"
    )
    return line + (f"; {sums.bookkeeping} bookkeeping ops apart" if sums.bookkeeping else "")


def foreseen(found: Prediction) -> str:
    """One line with predicted seconds and where they go."""
    inside = sum(given.compute + given.launch for given in found.delegates)
    return (
        f"predicted {seconds(found.seconds)} a call: {seconds(inside)} in delegates, "
        f"{seconds(found.border)} at their borders, {seconds(found.fallback)} outside"
    )


def seen(timing: Timing) -> str:
    """One line with measured seconds and where they go."""
    line = f"measured {seconds(timing.seconds)} a call"
    if timing.delegates or timing.ops:
        line += (
            f": {seconds(sum(timing.delegates.values()))} in delegates,"
            f" {seconds(sum(timing.ops.values()))} outside"
        )
    return line


def planned(memory: MemoryUse) -> str:
    """One line with the memory for the values of a call."""
    line = f"{quantity(memory.planned, 'B')} planned for the values of a call"
    if memory.live == memory.example_live:
        return line
    return f"{line}; the example's sizes need {quantity(memory.example_live, 'B')} of it"


def text(report: Report, width: int | None = None) -> str:
    """Verdict, delegates, borders, ops, totals and warnings."""
    tables = _tables(report)
    return _document(report, [as_text(table, width) for table in tables if table.rows], "")


def summary(report: Report, width: int | None = None) -> str:
    """Verdict, delegates, and the left ops counted by reason."""
    tables = [_delegates(report), _borders(report), _reasons(report), _states(report)]
    return _document(report, [as_text(table, width) for table in tables if table.rows], "")


def markdown(report: Report) -> str:
    """The tables of `text`, as Markdown."""
    tables = _tables(report)
    return _document(report, [as_markdown(table) for table in tables if table.rows], "## ")


def markdown_summary(report: Report) -> str:
    """The tables of `summary`, as Markdown."""
    tables = [_delegates(report), _borders(report), _reasons(report), _states(report)]
    return _document(report, [as_markdown(table) for table in tables if table.rows], "## ")


def _tables(report: Report) -> list[Table]:
    return [
        _delegates(report), _borders(report), _ops(report), _states(report), _modules(report),
        _types(report),
    ]  # fmt: skip


def _borders(report: Report) -> Table:
    return Table(
        title="Borders of quantized values",
        header=("value", "from", "to", "reader", "sides", "given", "read"),
        rows=[border.cells for border in report.borders],
    )


def _document(report: Report, tables: list[str], head: str) -> str:
    head_lines = [verdict(report.totals)]
    if report.borders:
        head_lines.append(met(report.borders))
    if report.prediction is not None:
        head_lines.append(foreseen(report.prediction))
    if report.timing is not None:
        head_lines.append(seen(report.timing))
    if report.memory is not None:
        head_lines.append(planned(report.memory))
    parts = ["\n".join(head_lines), *tables]
    if report.plan.warnings:
        parts.append("\n".join([f"{head}Warnings", *(f"- {w}" for w in report.plan.warnings)]))
    return "\n\n".join(parts) + "\n"


def _delegates(report: Report) -> Table:
    told = {"predicted": report.prediction is not None}
    told["measured"] = report.timing is not None and bool(report.timing.delegates)
    extra = tuple(name for name, there in told.items() if there)
    return Table(
        title="Delegates",
        header=("delegate", "backend", "ops", "FLOPs", "in", "out", *extra, "ends at"),
        rows=[
            (
                given.id,
                given.backend,
                str(given.ops),
                quantity(given.flops),
                quantity(given.bytes_in, "B"),
                quantity(given.bytes_out, "B"),
                *(spelt(getattr(given, f"{name}_seconds")) for name in extra),
                given.ends,
            )
            for given in report.by_delegate
        ],
        right=frozenset(range(2, 6 + len(extra))),
    )


def spelt(took: float | None) -> str:
    """Seconds as words; "-" where there are none."""
    return "-" if took is None else seconds(took)


def _ops(report: Report) -> Table:
    return Table(
        title="Ops",
        header=("op", "module", "backend", "delegate", "dtype/shape", "reason"),
        rows=[
            (
                _named(row),
                f"{row.module} [{row.layer}]".lstrip() if row.layer else row.module,
                row.backend or "-",
                row.delegate or "-",
                row.outputs,
                row.reason,
            )
            for row in report.rows
        ],
    )


def _named(row: Row) -> str:
    """The op's id, with its operator where the id doesn't tell it."""
    words = row.target.split(".")
    known = len(words) < 2 or words[1] in row.op
    return row.op if known else f"{row.op} ({row.target})"


def _modules(report: Report) -> Table:
    return Table(
        title="Totals by module",
        header=("module", "delegated", "ops", "FLOPs", "FLOPs delegated"),
        rows=[
            (
                "  " * (given.module.count(".") + 1) + given.module if given.module else "(all)",
                str(given.delegated),
                str(given.ops),
                quantity(given.flops),
                share(given.delegated_flops, given.flops),
            )
            for given in report.by_module
        ],
        right=frozenset({1, 2, 3, 4}),
        wraps=False,
    )


def _types(report: Report) -> Table:
    inside = sum(given.delegated for given in report.by_type)
    outside = sum(given.non_delegated for given in report.by_type)
    rows = [(t.op_type, str(t.delegated), str(t.non_delegated)) for t in report.by_type]
    return Table(
        title="Totals by op type",
        header=("op type", "delegated", "non-delegated"),
        rows=[*rows, ("Total", str(inside), str(outside))] if rows else [],
        right=frozenset({1, 2}),
        wraps=False,
    )


def _states(report: Report) -> Table:
    return Table(
        title="State",
        header=("written", "held by", "dtype/shape", "bytes", "initial value", "new value"),
        rows=[
            (
                given.name,
                given.owner or "the program",
                given.tensor,
                quantity(given.bytes, "B"),
                given.initial,
                f"of {given.written}, copied back",
            )
            for given in report.states
        ],
        right=frozenset({3}),
        wraps=False,
    )


def _reasons(report: Report) -> Table:
    counts = Counter(
        (answer.partitioner, answer.reason.code.value)
        for row in report.left
        for answer in row.answers
        if answer.reason
    )
    ordered = sorted(counts.items(), key=lambda item: (-item[1], item[0]))
    return Table(
        title="Ops left, by reason",
        header=("partitioner", "reason", "ops"),
        rows=[(*names, str(count)) for names, count in ordered],
        right=frozenset({2}),
        wraps=False,
    )
