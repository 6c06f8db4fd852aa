"""The sensitivity ranking: its rows, and how they are shown."""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING

from cede.quant.noise import decibel, finite
from cede.reporting.tables import Table, quantity

if TYPE_CHECKING:
    from collections.abc import Sequence


def decibels(error: float) -> float:
    """A relative error as signal to quantization noise in dB; infinite for none."""
    return -20 * math.log10(error) if error else math.inf


@dataclass(frozen=True, slots=True, kw_only=True)
class RankedRow:
    """One module, quantized alone.

    Attributes:
        module: its path.
        scheme: the mode.
        group: how many columns share a scale; 0 is all of a row.
        error: relative error (L2) of the model's outputs.
        share: of the sum of all modules' squared errors, from 0 to 1.
        saved: bytes of the weight less those of data and scales.
    """

    module: str
    scheme: str
    group: int
    error: float
    share: float
    saved: int

    @property
    def sqnr(self) -> float:
        """The error as signal to quantization noise in dB."""
        return decibels(self.error)

    def plain(self) -> dict[str, object]:
        """For JSON."""
        return {**asdict(self), "error": finite(self.error), "sqnr": finite(self.sqnr)}


def ranking(rows: Sequence[RankedRow]) -> Table:
    """The rows as a table."""
    return Table(
        title="Sensitivity: each module quantized alone",
        header=("scheme", "output error", "SQNR", "share", "saved", "module"),
        rows=[
            (
                row.scheme,
                f"{row.error:.2e}",
                decibel(row.sqnr),
                f"{100 * row.share:.1f} %",
                quantity(row.saved, "B"),
                row.module or "(the model)",
            )
            for row in rows
        ],
        right=frozenset(range(1, 5)),
    )
