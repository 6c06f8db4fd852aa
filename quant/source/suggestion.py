"""A mixed-precision suggestion: what it says, and the rules to paste."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING

from cede.quant.noise import decibel
from cede.quant.source.ranked import decibels
from cede.reporting.tables import Table, as_markdown, as_text, quantity, share

if TYPE_CHECKING:
    from cede.config import LayerConfig, QuantizeConfig


@dataclass(frozen=True, slots=True, kw_only=True)
class SuggestedRow:
    """One module.

    Attributes:
        module: its path.
        scheme: the mode, "" where it stays in float.
        group: how many columns share a scale; 0 is all of a row.
        error: relative error of the model with this module alone (and those that share its weight).
        note: why it stays in float, or what it shares its weight with.
    """

    module: str
    scheme: str = ""
    group: int = 0
    error: float = 0.0
    note: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Suggestion:
    """Rules that keep a model's outputs within an error.

    Attributes:
        target: the relative error (L2) that was asked for.
        error: that of the model quantized with `config`, as measured.
        config: the section `quantize` of a config; without rules where the error can't be met.
        rows: of all modules with a weight, in the model's order.
        bytes_before: of all these weights.
        bytes_after: of them as suggested, with scales.
        runs: how often the model ran on all calls.
    """

    target: float
    error: float
    config: QuantizeConfig
    rows: tuple[SuggestedRow, ...]
    bytes_before: int
    bytes_after: int
    runs: int

    @property
    def rules(self) -> tuple[LayerConfig, ...]:
        """What to write under `quantize.layers`."""
        return tuple(self.config.layers)

    @property
    def met(self) -> bool:
        """Whether any module can be quantized within the error."""
        return bool(self.rules)

    @property
    def left(self) -> tuple[SuggestedRow, ...]:
        """Rows of what stays in float."""
        return tuple(row for row in self.rows if not row.scheme)

    @property
    def warnings(self) -> tuple[str, ...]:
        """That the error can't be met, if so."""
        return () if self.met else (self.verdict,)

    @property
    def verdict(self) -> str:
        """One line."""
        asked = f"{self.target:.2g} ({decibel(decibels(self.target))})"
        if not self.met:
            if not self.rows:
                return "the model has no linear or embedding module to quantize"
            return f"an error of {asked} can't be met: no module takes a candidate within it"
        done = len(self.rows) - len(self.left)
        return (
            f"{done} of {len(self.rows)} modules quantized,"
            f" {quantity(self.bytes_before, 'B')} of weights -> {quantity(self.bytes_after, 'B')}"
            f" ({share(self.bytes_after, self.bytes_before)}),"
            f" error {self.error:.2g} ({decibel(decibels(self.error))}) of {asked} allowed"
        )

    def yaml(self) -> str:
        """The rules as a config has them; empty where there are none."""
        if not self.met:
            return ""
        lines = [_line(rule) for rule in self.rules]
        return "quantize:\n  layers:\n" + "\n".join(lines) + "\n"

    def text(self, width: int | None = None) -> str:
        """The verdict, the rules and a table."""
        return f"{self.verdict}\n\n{self.yaml()}\n{as_text(self._table(), width)}\n"

    def markdown(self) -> str:
        """The same as Markdown."""
        rules = f"```yaml\n{self.yaml()}```\n\n" if self.met else ""
        return f"{self.verdict}\n\n{rules}{as_markdown(self._table())}\n"

    def json(self) -> str:
        """All of it, with a schema."""
        data = {
            "schema": 1,
            "target": self.target,
            "error": self.error,
            "met": self.met,
            "bytes_before": self.bytes_before,
            "bytes_after": self.bytes_after,
            "runs": self.runs,
            "layers": [asdict(rule) for rule in self.rules],
            "modules": [asdict(row) for row in self.rows],
        }
        return json.dumps(data, indent=1, ensure_ascii=False) + "\n"

    def _table(self) -> Table:
        return Table(
            title="Suggestion",
            header=("module", "scheme", "group", "alone", "note"),
            rows=[
                (
                    row.module or "(the model)",
                    row.scheme or "-",
                    str(row.group) if row.group else "row" if row.scheme else "-",
                    f"{row.error:.2e}" if row.scheme else "-",
                    row.note,
                )
                for row in self.rows
            ],
            right=frozenset({3}),
        )


def _line(rule: LayerConfig) -> str:
    size = "" if rule.group_size is None else f", group_size: {rule.group_size}"
    return f"    - {{select: {json.dumps(rule.select)}, mode: {json.dumps(rule.mode)}{size}}}"


def read_error(text: str) -> float:
    """A relative error from "0.02", "2%" or "34dB".

    Raises:
        ValueError: another form.
    """
    word = text.strip().lower()
    if word.endswith("db"):
        return float(10.0 ** (-float(word[:-2]) / 20))
    return float(word[:-1]) / 100 if word.endswith("%") else float(word)
