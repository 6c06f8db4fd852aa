"""A report as text and Markdown."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING

from cede.costs import seconds

if TYPE_CHECKING:
    from collections.abc import Sequence

    from cede.costs import Prediction, Timing
    from cede.reporting.memory import MemoryUse
    from cede.reporting.records import Report, Row, Totals

NARROWEST = 24
REASON = 60
NAME = 40


@dataclass(frozen=True, slots=True, kw_only=True)
class Table:
    """A table with a title; the last column is the long one unless `wraps` is False."""

    title: str
    header: tuple[str, ...]
    rows: Sequence[Sequence[str]]
    right: frozenset[int] = frozenset()
    wraps: bool = True


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
    """Verdict, delegates, ops, totals and warnings."""
    tables = [
        _delegates(report), _ops(report), _states(report), _modules(report), _types(report)
    ]  # fmt: skip
    return _document(report, [as_text(table, width) for table in tables if table.rows], "")


def summary(report: Report, width: int | None = None) -> str:
    """Verdict, delegates, and the left ops counted by reason."""
    tables = [_delegates(report), _reasons(report), _states(report)]
    return _document(report, [as_text(table, width) for table in tables if table.rows], "")


def markdown(report: Report) -> str:
    """The tables of `text`, as Markdown."""
    tables = [
        _delegates(report), _ops(report), _states(report), _modules(report), _types(report)
    ]  # fmt: skip
    return _document(report, [as_markdown(table) for table in tables if table.rows], "## ")


def markdown_summary(report: Report) -> str:
    """The tables of `summary`, as Markdown."""
    tables = [_delegates(report), _reasons(report), _states(report)]
    return _document(report, [as_markdown(table) for table in tables if table.rows], "## ")


def _document(report: Report, tables: list[str], head: str) -> str:
    head_lines = [verdict(report.totals)]
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


def as_text(table: Table, width: int | None = None) -> str:
    """Title and table; names wrap at 40, the last column at what is left of the width."""
    from tabulate import tabulate

    most: list[int | None] = [None] * len(table.header)
    if table.wraps:
        # tabulate gives a header two columns more than its text
        cells = [[f"{title}  " for title in table.header], *table.rows]
        widest = [max(len(row[i]) for row in cells) for i in range(len(table.header))]
        most = [NAME if size > NAME else None for size in widest]
        taken = sum(min(size, NAME) + 2 for size in widest[:-1])
        last = REASON if width is None else max(NARROWEST, width - taken)
        most[-1] = last if widest[-1] > last else None
    return f"{table.title}\n" + tabulate(
        table.rows,
        headers=table.header,
        tablefmt="simple",
        disable_numparse=True,
        colalign=_align(table),
        maxcolwidths=most if any(most) else None,
        preserve_whitespace=True,
    )


def as_markdown(table: Table) -> str:
    """Title as a heading and a table."""
    from tabulate import tabulate

    rows = [[cell.replace("|", "\\|").replace("\n", " ") for cell in row] for row in table.rows]
    return f"## {table.title}\n\n" + tabulate(
        rows,
        headers=table.header,
        tablefmt="pipe",
        disable_numparse=True,
        colalign=_align(table),
    )


def _align(table: Table) -> list[str]:
    return ["right" if i in table.right else "left" for i in range(len(table.header))]


def share(part: int, whole: int) -> str:
    """ "92.7 %"; "-" of nothing. Never rounded up to 100 % or down to 0 %."""
    if not whole:
        return "-"
    percent = 100 * part / whole
    shown = f"{percent:.1f}"
    if part < whole and shown == "100.0":
        return "99.9 %"
    if part and shown == "0.0":
        return "0.1 %"
    return f"{shown.removesuffix('.0')} %"


def quantity(value: int, unit: str = "") -> str:
    """ "1.23 M": three digits with a decimal prefix."""
    size = float(value)
    prefixes = ["", "k", "M", "G", "T"]
    while size >= 999.5 and len(prefixes) > 1:
        size /= 1000
        prefixes.pop(0)
    digits = f"{size:.3g}" if size < 999.5 else f"{size:.0f}"
    return f"{digits} {prefixes[0]}{unit}".rstrip()
