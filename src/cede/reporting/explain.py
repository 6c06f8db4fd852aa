"""Everything about one op."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from cede.errors import ConfigError, PlanError
from cede.nearest import suggestion
from cede.reporting.make import make_report
from cede.reporting.records import Report
from cede.types import InputKind, Ref

if TYPE_CHECKING:
    from collections.abc import Iterator

    from cede.planning import Plan
    from cede.reporting.records import Row
    from cede.types import Argument, Op

AT_MOST = 20


def explain(source: Report | Plan, pattern: str) -> str:
    """Everything about the ops of a pattern: answers, winner, losses, place, arguments, neighbours.

    Args:
        source: a report, or a plan that still has its graph.
        pattern: an op's id; else a regular expression or a part of ids and operators.

    Raises:
        ConfigError: no op matches; the nearest ids are named.
        PlanError: the plan was read from a file and has no graph.
    """
    if isinstance(source, Report):
        report = source
    elif source.graph is None:
        raise PlanError("the plan has no graph: plan the program again to explain it")
    else:
        report = make_report(source, source.graph)
    rows = _matching(report, pattern)
    texts = ["\n".join(_lines(report, row)) + "\n" for row in rows[:AT_MOST]]
    if more := rows[AT_MOST:]:
        texts.append(f"{len(more)} more match: {', '.join(row.op for row in more)}\n")
    return "\n".join(texts)


def _matching(report: Report, pattern: str) -> list[Row]:
    if exact := [row for row in report.rows if row.op == pattern]:
        return exact
    found = [row for row in report.rows if pattern in row.op or pattern in row.target]
    if not found:
        try:
            search = re.compile(pattern).search
        except re.error:
            pass
        else:
            found = [row for row in report.rows if search(row.op) or search(row.target)]
    if not found:
        near = suggestion(pattern, [row.op for row in report.rows])
        raise ConfigError(f"no op matches {pattern!r}; {near}")
    return found


def _lines(report: Report, row: Row) -> Iterator[str]:
    op = report.graph.op(row.op)
    yield f"{op.id}  {op.target}"
    yield f"  in: {_place(row)}"
    for label, value in (
        ("module", op.module),
        ("layer", op.layer),
        ("source", op.source),
        ("branch", op.scope),
        ("runs", ", ".join(op.branches)),
        ("outputs", row.outputs),
        ("FLOPs", str(row.flops)),
        ("bytes", str(row.bytes)),
    ):
        if value:
            yield f"  {label}: {value}"
    yield "  answers:"
    for answer in row.answers:
        yield f"    {answer.partitioner}: {answer}"
    if not row.answers:
        yield f"    {row.reason or 'none'}"
    if op.args:
        yield "  arguments:"
        for name, argument in op.args:
            yield f"    {name} = {_shown(argument)}"
    yield from _neighbours(report, op)


def _neighbours(report: Report, op: Op) -> Iterator[str]:
    rows = {row.op: row for row in report.rows}
    if op.inputs:
        yield "  reads:"
    for used in op.inputs:
        if (given := report.graph.input(used)) is not None:
            named = f" {given.target}" if given.target else ""
            kind = "input" if given.kind is InputKind.USER else given.kind.value
            yield f"    {used}: {kind}{named} {given.tensor or ''}".rstrip()
        else:
            yield f"    {used}: {rows[used].outputs}, {_place(rows[used])}"
    users = report.graph.users(op.id)
    returned = op.id in report.graph.outputs
    written = [name for name, id in report.graph.mutations if id == op.id]
    returned_by = [scope for scope, ids in report.graph.returns if op.id in ids]
    if users or returned or written or returned_by:
        yield "  read by:"
    for user in users:
        yield f"    {user}: {rows[user].target}, {_place(rows[user])}"
    if returned:
        yield "    the caller (an output)"
    for name in written:
        yield f"    {name} (written back)"
    for scope in returned_by:
        yield f"    the end of branch {scope}"


def _place(row: Row) -> str:
    if not row.delegate:
        return "no delegate"
    return f"{row.delegate} ({row.backend}, claimed by {row.partitioner})"


def _shown(value: Argument) -> str:
    if isinstance(value, Ref):
        return value.id
    if isinstance(value, tuple):
        return "[" + ", ".join(_shown(entry) for entry in value) + "]"
    return repr(value)
