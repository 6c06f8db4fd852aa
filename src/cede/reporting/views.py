"""The tables of a report."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from cede.costs import seconds
from cede.reporting.comparison import points
from cede.reporting.tables import Table, quantity, share

if TYPE_CHECKING:
    from collections.abc import Sequence

    from cede.reporting.comparison import Rank
    from cede.reporting.content import SharedConstant
    from cede.reporting.records import Report, Row


def delegates_table(report: Report) -> Table:
    """One line a delegate: what crosses its border, why it ends."""
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


def borders_table(report: Report) -> Table:
    """Borders of quantized values, and how their sides fit."""
    return Table(
        title="Borders of quantized values",
        header=("value", "from", "to", "reader", "sides", "given", "read"),
        rows=[border.cells for border in report.borders],
    )


def ops_table(report: Report) -> Table:
    """One line an op: who took it, or why nobody did."""
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
        marked=frozenset(
            i for i, row in enumerate(report.rows) if not (row.delegate or row.bookkeeping)
        ),
    )


def _named(row: Row) -> str:
    """The op's id, with its operator where the id doesn't tell it."""
    words = row.target.split(".")
    known = len(words) < 2 or words[1] in row.op
    return row.op if known else f"{row.op} ({row.target})"


def modules_table(report: Report) -> Table:
    """One line a module, those inside it indented."""
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


def types_table(report: Report) -> Table:
    """Nodes of the lowered program by op type."""
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


def states_table(report: Report) -> Table:
    """Buffers and inputs that a call writes."""
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


def reasons_table(report: Report) -> Table:
    """The ops left, counted by partitioner and reason code."""
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


def advice_table(report: Report) -> Table:
    """The most useful things to do."""
    return Table(
        title="Most useful to do",
        header=("what", "gain", "now"),
        rows=[(given.do, given.gain, given.why) for given in report.advice],
    )


def kernels_table(report: Report) -> Table:
    """Operators that the runtime must have kernels for."""
    return Table(
        title="Kernels needed outside of delegates",
        header=("operator", "ops", "FLOPs", "dtypes"),
        rows=[
            (given.operator, str(given.ops), quantity(given.flops), " ".join(given.dtypes))
            for given in report.kernels
        ],
        right=frozenset({1, 2}),
        wraps=False,
    )


def shared_table(report: Report) -> Table:
    """Constants that several holders may each store, and those that a program stores so."""
    return Table(
        title="Constants read in several places",
        header=("constant", "dtype/shape", "bytes", "further copies", "read in"),
        rows=[
            (
                ", ".join((given.name, *given.same)),
                given.tensor,
                quantity(given.bytes, "B"),
                _copies(given),
                ", ".join(given.holders),
            )
            for given in report.shared_constants
        ],
        right=frozenset({2, 3}),
    )


def _copies(given: SharedConstant) -> str:
    """Bytes of all copies but one."""
    extra = quantity(given.extra_bytes, "B")
    if given.copies is None:
        return f"up to {extra}"
    return extra if given.extra_bytes else "none"


def ranking_table(ranks: Sequence[Rank], most: int | None = None) -> Table:
    """Operators whose support would merge delegates, the first `most` of them."""
    return Table(
        title="Would merge most, if supported",
        header=("operator", "backend", "ops", "delegates", "FLOPs", "now"),
        rows=[
            (
                rank.kind,
                rank.backend,
                str(len(rank.ops)),
                f"{rank.comparison.before.delegates} -> {rank.comparison.after.delegates}",
                points(rank.flops, rank.comparison.after.flops),
                str(rank.reason),
            )
            for rank in [rank for rank in ranks if rank.merged > 0][:most]
        ],
        right=frozenset({2}),
    )
