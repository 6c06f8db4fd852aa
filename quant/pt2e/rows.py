"""What became of each op: annotated by the quantizer, or why not."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass

from cede.quant.noise import decibel, finite
from cede.reporting.tables import Table, as_markdown, as_text


@dataclass(frozen=True, slots=True, kw_only=True)
class AnnotatedRow:
    """The ops of one kind in one module that fared alike.

    Attributes:
        module: path of the module that calls them.
        op: operator without overload, such as "aten.conv2d".
        count: how many there are.
        quantizer: that annotated them, "" where they were left.
        scheme: the mode, "" where they were left in float.
        note: why they were left.
    """

    module: str
    op: str
    count: int
    quantizer: str = ""
    scheme: str = ""
    note: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class AnnotationReport:
    """What one or more quantizers did with a program.

    Attributes:
        quantizer: its name; several are joined by ", ".
        per_channel: whether weights have one scale a channel, else one in all.
        calls: how many calls it was calibrated with.
        rows: in the program's order.
        guided: whether ops were shared out by a plan of the float program.
        warnings: what the user should know.
        output_sqnr: signal to quantization noise of the outputs on example inputs in dB; None where
            not compared.
    """

    quantizer: str
    per_channel: bool
    calls: int
    rows: tuple[AnnotatedRow, ...]
    guided: bool = False
    warnings: tuple[str, ...] = ()
    output_sqnr: float | None = None

    @property
    def left(self) -> tuple[AnnotatedRow, ...]:
        """Rows of what was not annotated."""
        return tuple(row for row in self.rows if not row.scheme)

    @property
    def verdict(self) -> str:
        """One line."""
        done = sum(row.count for row in self.rows if row.scheme)
        total = sum(row.count for row in self.rows)
        weights = "channel" if self.per_channel else "tensor"
        several = "s" * (", " in self.quantizer)
        return (
            f"{done} of {total} ops annotated by the {self.quantizer} quantizer{several}"
            + (", guided by the plan" if self.guided else "")
            + f", weights per {weights}, calibrated with {self.calls}"
            f" call{'s' * (self.calls != 1)}"
            + ("" if self.output_sqnr is None else f", outputs {decibel(self.output_sqnr)}")
        )

    def text(self, width: int | None = None) -> str:
        """The verdict and a table."""
        return f"{self.verdict}\n\n{as_text(self._table(), width)}\n"

    def markdown(self) -> str:
        """The same as Markdown."""
        return f"{self.verdict}\n\n{as_markdown(self._table())}\n"

    def json(self) -> str:
        """The rows, with a schema."""
        data = {
            "schema": 1,
            "quantizer": self.quantizer,
            "per_channel": self.per_channel,
            "guided": self.guided,
            "calls": self.calls,
            "output_sqnr": finite(self.output_sqnr),
            "warnings": list(self.warnings),
            "ops": [asdict(row) for row in self.rows],
        }
        return json.dumps(data, indent=1, ensure_ascii=False) + "\n"

    @property
    def tables(self) -> list[Table]:
        """One row for the ops of one kind in one module."""
        return [self._table()]

    def _table(self) -> Table:
        return Table(
            title="Quantization",
            header=("module", "op", "count", "quantizer", "scheme", "note"),
            rows=[
                (
                    row.module or "-",
                    row.op,
                    str(row.count),
                    row.quantizer or "-",
                    row.scheme or "-",
                    row.note,
                )
                for row in self.rows
            ],
            right=frozenset({2}),
        )
