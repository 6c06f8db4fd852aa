"""What became of each module: the quantization report."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass

from cede.quant.noise import decibel, finite
from cede.quant.source.ranked import RankedRow, ranking
from cede.reporting.tables import Table, as_markdown, as_text, quantity


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
        output_sqnr: as `sqnr`, of the module's output on example inputs; None where not compared.
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
    output_sqnr: float | None = None
    note: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class QuantizationReport:
    """One row a module, in the model's order.

    Attributes:
        rows: of all modules with a weight.
        bytes_before: of all these weights, each once.
        bytes_after: of data and scales, what modules share once.
        output_sqnr: signal to quantization noise of the model's outputs on example inputs in dB;
            None where not compared.
        ranking: the quantized modules by the error of each alone, if that was asked for.
    """

    rows: tuple[QuantizedRow, ...]
    bytes_before: int
    bytes_after: int
    output_sqnr: float | None = None
    ranking: tuple[RankedRow, ...] = ()

    @property
    def warnings(self) -> tuple[str, ...]:
        """That nothing was quantized, if so; what was left has a row."""
        if any(row.scheme for row in self.rows):
            return ()
        what = "every module with a weight was left" if self.rows else "no module has a weight"
        return (f"nothing was quantized: {what}",)

    @property
    def left(self) -> tuple[QuantizedRow, ...]:
        """Rows of what was not quantized."""
        return tuple(row for row in self.rows if not row.scheme)

    @property
    def verdict(self) -> str:
        """One line."""
        done = [row for row in self.rows if row.scheme]
        return (
            f"{len(done)} of {len(self.rows)} modules quantized,"
            f" {quantity(self.bytes_before, 'B')} of weights"
            f" -> {quantity(self.bytes_after, 'B')}"
            + ("" if self.output_sqnr is None else f", outputs {decibel(self.output_sqnr)}")
        )

    def text(self, width: int | None = None) -> str:
        """The verdict and a table."""
        tables = "\n\n".join(as_text(table, width) for table in self.tables)
        return f"{self.verdict}\n\n{tables}\n"

    def markdown(self) -> str:
        """The same as Markdown."""
        tables = "\n\n".join(as_markdown(table) for table in self.tables)
        return f"{self.verdict}\n\n{tables}\n"

    def json(self) -> str:
        """The rows, with a schema."""
        data = {
            "schema": 1,
            "bytes_before": self.bytes_before,
            "bytes_after": self.bytes_after,
            "output_sqnr": finite(self.output_sqnr),
            "modules": [_plain(row) for row in self.rows],
            **({"ranking": [row.plain() for row in self.ranking]} if self.ranking else {}),
        }
        return json.dumps(data, indent=1, ensure_ascii=False) + "\n"

    @property
    def tables(self) -> list[Table]:
        """One row a module, and the ranking if there is one."""
        return [self._table(), *([ranking(self.ranking)] if self.ranking else [])]

    def _table(self) -> Table:
        extra = () if self.output_sqnr is None else ("output",)
        return Table(
            title="Quantization",
            header=(
                *("module", "kind", "weight", "scheme", "group", "before", "after", "SQNR"),
                *extra,
                "note",
            ),
            rows=[
                (
                    row.module,
                    row.kind,
                    "x".join(map(str, row.shape)),
                    row.scheme or "-",
                    str(row.group) if row.group else "row" if row.scheme else "-",
                    quantity(row.bytes_before, "B"),
                    quantity(row.bytes_after, "B"),
                    decibel(row.sqnr),
                    *((decibel(row.output_sqnr),) if extra else ()),
                    row.note,
                )
                for row in self.rows
            ],
            right=frozenset(range(5, 8 + len(extra))),
        )


def _plain(row: QuantizedRow) -> dict[str, object]:
    return {**asdict(row), "sqnr": finite(row.sqnr), "output_sqnr": finite(row.output_sqnr)}
