"""What became of each module: the quantization report."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass

from cede.reporting.render import Table, as_markdown, as_text, quantity


@dataclass(frozen=True, slots=True, kw_only=True)
class QuantizedRow:
    """One module with a weight.

    Attributes:
        module: its path.
        kind: class of the module.
        shape: of its weight.
        scheme: the mode, "" where it was left.
        group: how many columns share a scale; 0 is all of a row.
        bytes_before: of the weight.
        bytes_after: of data and scales.
        sqnr: signal to quantization noise of the weight in dB; None where it was left.
        note: why it was left, or what else happened to it.
    """

    module: str
    kind: str
    shape: tuple[int, ...]
    scheme: str = ""
    group: int = 0
    bytes_before: int
    bytes_after: int
    sqnr: float | None = None
    note: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class QuantizationReport:
    """One row a module, in the model's order."""

    rows: tuple[QuantizedRow, ...]

    @property
    def left(self) -> tuple[QuantizedRow, ...]:
        """Rows of what was not quantized."""
        return tuple(row for row in self.rows if not row.scheme)

    @property
    def verdict(self) -> str:
        """One line."""
        done = [row for row in self.rows if row.scheme]
        before = sum(row.bytes_before for row in self.rows)
        after = sum(row.bytes_after for row in self.rows)
        return (
            f"{len(done)} of {len(self.rows)} modules quantized,"
            f" {quantity(before, 'B')} of weights -> {quantity(after, 'B')}"
        )

    def text(self, width: int | None = None) -> str:
        """The verdict and a table."""
        return f"{self.verdict}\n\n{as_text(self._table(), width)}\n"

    def markdown(self) -> str:
        """The same as Markdown."""
        return f"{self.verdict}\n\n{as_markdown(self._table())}\n"

    def json(self) -> str:
        """The rows, with a schema."""
        data = {"schema": 1, "modules": [asdict(row) for row in self.rows]}
        return json.dumps(data, indent=1, ensure_ascii=False) + "\n"

    def _table(self) -> Table:
        return Table(
            title="Quantization",
            header=("module", "kind", "weight", "scheme", "group", "before", "after", "SQNR", "note"),
            rows=[
                (
                    row.module,
                    row.kind,
                    "x".join(map(str, row.shape)),
                    row.scheme or "-",
                    str(row.group) if row.group else "row" if row.scheme else "-",
                    quantity(row.bytes_before, "B"),
                    quantity(row.bytes_after, "B"),
                    "-" if row.sqnr is None else f"{row.sqnr:.1f} dB",
                    row.note,
                )
                for row in self.rows
            ],
            right=frozenset({5, 6, 7}),
        )
