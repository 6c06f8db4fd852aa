"""The outcome of a verification, as values, text and JSON."""

from __future__ import annotations

import json
import math
from dataclasses import dataclass, replace
from itertools import groupby
from typing import TYPE_CHECKING, Any

from cede.checking.compare import Difference
from cede.reporting.tables import Table, as_markdown, as_text

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

SCHEMA = 1
RIGHT, WRONG, ODD, FAILED = "right", "wrong", "differs", "failed"


@dataclass(frozen=True, slots=True, kw_only=True)
class Part:
    """One delegate alone, or the whole program, in one case.

    Attributes:
        what: id of the delegation, or "whole"; "whole, from a file".
        case: name of the case.
        odd: whether its inputs are NaN or extreme.
        outcome: "right"; "wrong"; "differs" where inputs were NaN or extreme, which many backends
            treat in ways of their own; "failed" where it could not be run.
        difference: from eager, None where it failed.
        detail: what is wrong.
        backend: of a delegate, "" for the whole.
        where: first op of a delegate, with module and source; "" for the whole.
    """

    what: str
    case: str
    outcome: str
    odd: bool = False
    difference: Difference | None = None
    detail: str = ""
    backend: str = ""
    where: str = ""

    @property
    def good(self) -> bool:
        """Whether it counts as verified; odd inputs alone don't make a program wrong."""
        return self.outcome in (RIGHT, ODD)


@dataclass(frozen=True, slots=True, kw_only=True)
class Verification:
    """Every delegate alone and the whole program, against eager.

    Attributes:
        parts: one row for each delegate and case, then for the whole and each case.
        notes: cases that could not be made.
    """

    parts: tuple[Part, ...]
    notes: tuple[str, ...] = ()

    @property
    def passed(self) -> bool:
        """Whether nothing is wrong or failed."""
        return all(part.good for part in self.parts)

    @property
    def exact(self) -> bool:
        """Whether nothing differs on odd inputs either."""
        return all(part.outcome == RIGHT for part in self.parts)

    @property
    def message(self) -> str:
        """One sentence; names the first that is at fault, a delegate before the whole."""
        bad = [part for part in self.parts if not part.good]
        if bad:
            first = bad[0]
            who = f"delegate {first.what} of {first.backend}" if first.backend else first.what
            at = f" ({first.where})" if first.where else ""
            return (
                f"{len(bad)} of {len(self.parts)} comparisons fail; first {who}{at},"
                f" {first.case}: {first.detail}"
            )
        odd = sum(part.outcome == ODD for part in self.parts)
        line = f"{len(self.parts) - odd} of {len(self.parts)} comparisons agree with eager"
        return f"{line}; {odd} differ on NaN or extreme inputs alone" if odd else line

    def text(self, width: int | None = None, verbose: bool = False) -> str:
        """Tables for a terminal.

        Args:
            width: columns that there are; None lets long details wrap.
            verbose: a row for each comparison; else what is right is one row each for usual and
                for odd inputs.
        """
        return self._document([as_text(table, width) for table in self._tables(verbose)])

    def markdown(self, verbose: bool = False) -> str:
        """The tables in Markdown."""
        return self._document([as_markdown(table) for table in self._tables(verbose)])

    def json(self) -> str:
        """Everything, with a schema."""
        data = {
            "schema": SCHEMA,
            "passed": self.passed,
            "message": self.message,
            "parts": [_data(part) for part in self.parts],
            "notes": list(self.notes),
        }
        return json.dumps(data, indent=1) + "\n"

    def _document(self, tables: list[str]) -> str:
        notes = [f"note: {note}" for note in self.notes]
        return "\n\n".join([self.message, *tables, *(["\n".join(notes)] if notes else [])]) + "\n"

    def _tables(self, verbose: bool) -> list[Table]:
        parts = self.parts if verbose else tuple(_joined(self.parts))
        alone = [part for part in parts if part.backend]
        whole = [part for part in parts if not part.backend]
        tables = [
            _table("Delegates, each alone on eager's values", "delegate", alone),
            _table("The whole program", "program", whole),
        ]
        return [table for table in tables if table.rows]


def _joined(parts: Sequence[Part]) -> Iterator[Part]:
    """Neighbours that are right as one row, with the largest differences of all."""
    kinds = groupby(parts, key=lambda part: (part.what, part.odd, part.outcome == RIGHT))
    for (_, _, right), group in kinds:
        same = list(group)
        if not right or len(same) == 1:
            yield from same
            continue
        total = sum((part.difference for part in same if part.difference), Difference())
        yield replace(same[0], case=", ".join(part.case for part in same), difference=total)


def _table(title: str, first: str, parts: list[Part]) -> Table:
    return Table(
        title=title,
        header=(first, "inputs", "max error", "mean error", "SQNR", "outcome", "detail"),
        rows=[
            (
                f"{part.what} ({part.backend})" if part.backend else part.what,
                part.case,
                *_numbers(part.difference),
                part.outcome,
                f"{part.detail}; from {part.where}" if part.detail and part.where else part.detail,
            )
            for part in parts
        ],
        right=frozenset({2, 3, 4}),
    )


def _numbers(found: Difference | None) -> tuple[str, str, str]:
    if found is None:
        return "-", "-", "-"
    noise = "exact" if found.sqnr == math.inf else f"{found.sqnr:.1f} dB"
    return f"{found.max_error:.2g}", f"{found.mean_error:.2g}", noise if found.count else "-"


def _data(part: Part) -> dict[str, Any]:
    found = part.difference
    return {
        "what": part.what,
        "backend": part.backend,
        "where": part.where,
        "inputs": part.case,
        "outcome": part.outcome,
        "detail": part.detail,
        "max_error": _finite(found.max_error) if found else None,
        "mean_error": _finite(found.mean_error) if found else None,
        "sqnr": _finite(found.sqnr) if found else None,
    }


def _finite(value: float) -> float | None:
    """JSON has no infinity."""
    return value if math.isfinite(value) else None
