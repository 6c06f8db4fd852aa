"""The support matrix as text, Markdown and CSV."""

from __future__ import annotations

import csv
import io
from collections import Counter
from dataclasses import asdict
from typing import TYPE_CHECKING

from cede.reporting.tables import Table, as_markdown, as_text
from cede.support.records import GOOD, Answer, write_support
from cede.types import Code

if TYPE_CHECKING:
    from collections.abc import Iterator

    from cede.support.compare import Change
    from cede.support.records import Cell, Support

SHORTENED = 200
"""Characters of a reason in a table; CSV and JSON have it all."""


def shown(support: Support, form: str, width: int | None = None) -> str:
    """The matrix in one of the forms "text", "markdown", "csv" and "json"."""
    if form == "json":
        return write_support(support)
    if form == "csv":
        return _csv(support)
    tables = [table for table in _tables(support) if table.rows]
    if form == "markdown":
        return "\n\n".join(as_markdown(table) for table in tables) + "\n"
    return "\n\n".join(as_text(table, width) for table in tables) + "\n"


def _csv(support: Support) -> str:
    made = io.StringIO()
    names = ("op", "backend", "dtype", "shapes", "answer", "code", "reason", "outcome", "detail")
    writer = csv.DictWriter(made, names, lineterminator="\n")
    writer.writeheader()
    for cell in support.cells:
        row = {key: getattr(value, "value", value) for key, value in asdict(cell).items()}
        writer.writerow(row)
    return made.getvalue()


def _tables(support: Support) -> Iterator[Table]:
    yield _backends(support)
    yield _sums(support)
    yield matrix(support)
    yield _faults(support)
    yield _reasons(support)


def _backends(support: Support) -> Table:
    return Table(
        title="Probed less far than asked",
        header=("backend", "probed", "why no further"),
        rows=[
            (name, support.levels.get(name, "not at all"), why)
            for name, why in support.unavailable.items()
        ],
    )


def _sums(support: Support) -> Table:
    counts: dict[tuple[str, str, str], Counter[str]] = {}
    for cell in support.cells:
        counts.setdefault(cell.column, Counter()).update(_counted(cell))
    words = ("claimed", "partly", "refused", "right", "at fault", "not in torch", "other")
    return Table(
        title="Totals",
        header=("backend", "dtype", "shapes", *words),
        rows=[(*column, *(str(found[word]) for word in words)) for column, found in counts.items()],
        right=frozenset(range(3, 3 + len(words))),
        wraps=False,
    )


def _counted(cell: Cell) -> Iterator[str]:
    told = (Answer.CLAIMED, Answer.PARTLY, Answer.REFUSED, Answer.NOT_IN_TORCH)
    yield cell.answer.value if cell.answer in told else "other"
    if cell.outcome.value == "right":
        yield "right"
    elif cell.outcome not in GOOD:
        yield "at fault"


def matrix(support: Support) -> Table:
    """A row an op, a column a backend, dtype and kind of shapes."""
    columns = support.columns
    heads = [" ".join(column) for column in columns]
    if len({column[0] for column in columns}) == 1:
        heads = [f"{dtype} {shapes}" for _, dtype, shapes in columns]
    cells = {cell.key: cell.word for cell in support.cells}
    return Table(
        title="Ops",
        header=("op", *heads),
        rows=[(op, *(cells.get((op, *column), "") for column in columns)) for op in support.ops],
        wraps=False,
    )


def _faults(support: Support) -> Table:
    """Claims that don't hold."""
    return Table(
        title="Claimed and not right",
        header=("op", "backend", "dtype", "shapes", "outcome", "what was seen"),
        rows=[
            (*cell.key, cell.outcome.value, _short(cell.detail))
            for cell in support.cells
            if cell.outcome not in GOOD
        ],
    )


def _reasons(support: Support) -> Table:
    """Why something isn't claimed whole, each reason once with where it was given."""
    found: dict[tuple[str, str, str, str], list[str]] = {}
    for cell in support.cells:
        known = cell.answer is not Answer.REFUSED or cell.code != Code.UNKNOWN_OP.value
        if cell.reason and known:  # of an unknown op the table of ops says it all
            code = cell.code or cell.answer.value
            reason = _short(cell.reason)
            where = found.setdefault((cell.op, cell.backend, code, reason), [])
            where.append(f"{cell.dtype} {cell.shapes}")
    return Table(
        title="Reasons",
        header=("op", "backend", "where", "code", "reason"),
        rows=[
            (op, backend, _where(where), code, reason)
            for (op, backend, code, reason), where in found.items()
        ],
    )


def _where(places: list[str]) -> str:
    """ "float32, float16" for both kinds of shapes of each, where it is so."""
    kinds: dict[str, list[str]] = {}
    for place in places:
        dtype, _, shapes = place.partition(" ")
        kinds.setdefault(dtype, []).append(shapes)
    return ", ".join(
        dtype if len(shapes) > 1 else f"{dtype} {shapes[0]}" for dtype, shapes in kinds.items()
    )


def _short(text: str) -> str:
    return text if len(text) <= SHORTENED else f"{text[: SHORTENED - 3]}..."


def changes_text(changes: list[Change], against: str) -> str:
    """What changed, a line each."""
    if not changes:
        return f"as in {against}\n"
    lines = [f"{len(changes)} changed since {against}:"]
    lines += [f"- {change}" for change in changes]
    return "\n".join(lines) + "\n"
