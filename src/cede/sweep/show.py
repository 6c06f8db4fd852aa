"""The rows of a sweep as text, Markdown, CSV, JSON and Parquet."""

from __future__ import annotations

import csv
import io
import json
from dataclasses import fields
from typing import TYPE_CHECKING

from cede.costs import seconds
from cede.errors import ConfigError
from cede.reporting.tables import Table, as_markdown, as_text, quantity, share
from cede.sweep.row import FAULTS, Row

if TYPE_CHECKING:
    from collections.abc import Sequence

NAMING = 4
"""How many columns say what a row is about."""

NUMBERS = ("delegates", "program", "max error", "a call")


def shown(
    rows: Sequence[Row], form: str = "text", width: int | None = None, *, rich: bool = False
) -> str:
    """The table in one of the forms "text", "markdown", "csv" and "json"."""
    if form == "json":
        return json.dumps({"schema": 1, "rows": [row.values() for row in rows]}, indent=1) + "\n"
    if form == "csv":
        made = io.StringIO()
        writer = csv.DictWriter(made, [one.name for one in fields(Row)], lineterminator="\n")
        writer.writeheader()
        writer.writerows(row.values() for row in rows)
        return made.getvalue()
    table = _table(rows)
    told = as_markdown(table) if form == "markdown" else as_text(table, width, rich=rich)
    return f"{told}\n"


def parquet(rows: Sequence[Row]) -> bytes:
    """The rows as a Parquet file.

    Raises:
        ConfigError: pyarrow is not installed.
    """
    try:
        import pyarrow
        from pyarrow import parquet as files
    except ImportError:
        raise ConfigError("Parquet needs `pip install 'cede[parquet]'`") from None
    kinds = {"str": pyarrow.string(), "Outcome": pyarrow.string(), "int": pyarrow.int64(),
             "float": pyarrow.float64()}  # fmt: skip
    schema = pyarrow.schema(
        [(one.name, kinds[str(one.type).partition(" ")[0]]) for one in fields(Row)]
    )
    made = io.BytesIO()
    table = pyarrow.Table.from_pylist([row.values() for row in rows], schema=schema)
    files.write_table(table, made)
    return made.getvalue()


def _table(rows: Sequence[Row]) -> Table:
    """Without the columns that no row has."""
    header = ("model", "config", "outcome", "step", "ops in delegates", "FLOPs", "delegates",
              "program", "max error", "a call", "why")  # fmt: skip
    cells = [_cells(row) for row in rows]
    shown = [i for i in range(len(header)) if i < NAMING or any(row[i] for row in cells)]
    return Table(
        title="Sweep",
        header=tuple(header[i] for i in shown),
        rows=[tuple(row[i] for i in shown) for row in cells],
        right=frozenset(at for at, i in enumerate(shown) if header[i] in NUMBERS),
        marked=frozenset(i for i, row in enumerate(rows) if row.outcome in FAULTS),
    )


def _cells(row: Row) -> tuple[str, ...]:
    ops = flops = delegates = ""
    if row.ops is not None:
        ops = f"{row.delegated} of {row.ops} ({share(row.delegated or 0, row.ops)})"
        flops = share(row.delegated_flops or 0, row.flops or 0)
        delegates = str(row.delegates)
    size = "" if row.program_bytes is None else quantity(row.program_bytes, "B")
    error = "" if row.max_error is None else f"{row.max_error:.2g}"
    took = "" if row.seconds is None else seconds(row.seconds)
    named = row.model, row.config, row.outcome.value, row.step
    return *named, ops, flops, delegates, size, error, took, row.detail
