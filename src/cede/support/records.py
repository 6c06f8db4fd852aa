"""The support matrix as a value: one cell an op, backend, dtype and kind of shapes."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, field
from enum import Enum
from typing import TYPE_CHECKING, Any

from cede.errors import ConfigError
from cede.files import read_text

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

SCHEMA = 1
LEVELS = ("claim", "lower", "run")
STATIC, DYNAMIC = "static", "dynamic"


class Answer(str, Enum):
    """What a backend's partitioners say to an op."""

    CLAIMED = "claimed"
    PARTLY = "partly"
    REFUSED = "refused"
    NOTHING = "nothing left"
    FAILED = "failed"
    NOT_IN_TORCH = "not in torch"
    STATIC_ONLY = "static only"
    NOT_PROBED = "not probed"


class Outcome(str, Enum):
    """What became of an op that is claimed, whole or in part."""

    NONE = ""
    LOWERED = "lowered"
    RIGHT = "right"
    WRONG = "wrong"
    NOT_LOWERED = "not lowered"
    NOT_RUN = "not run"
    CRASHED = "crashed"
    TIMED_OUT = "timed out"


GOOD = (Outcome.NONE, Outcome.LOWERED, Outcome.RIGHT)


@dataclass(frozen=True, slots=True, kw_only=True)
class Cell:
    """One op on one backend.

    Attributes:
        op: operator with overload, or the name of a function.
        backend: the backend's name.
        dtype: of its data ("float32").
        shapes: "static", or "dynamic" for a symbolic first dimension.
        answer: what is claimed.
        code: of the first op that is refused, "" where none is.
        reason: in words, for everything that isn't claimed whole.
        outcome: once lowered or run.
        detail: largest difference, or what went wrong.
    """

    op: str
    backend: str
    dtype: str
    shapes: str
    answer: Answer
    code: str = ""
    reason: str = ""
    outcome: Outcome = Outcome.NONE
    detail: str = ""

    @property
    def key(self) -> tuple[str, str, str, str]:
        """What it is about."""
        return self.op, self.backend, self.dtype, self.shapes

    @property
    def column(self) -> tuple[str, str, str]:
        """Backend, dtype and kind of shapes."""
        return self.backend, self.dtype, self.shapes

    @property
    def word(self) -> str:
        """The cell in a word or two."""
        if self.answer is Answer.REFUSED:
            return f"no: {self.code}"
        if self.answer is Answer.PARTLY:
            return f"partly, {self.outcome.value}" if self.outcome.value else "partly"
        if self.answer is Answer.CLAIMED:
            return self.outcome.value or "claimed"
        return "-" if self.answer is Answer.NOT_IN_TORCH else self.answer.value


@dataclass(frozen=True, slots=True, kw_only=True)
class Support:
    """A whole matrix.

    Attributes:
        versions: of what decides it ("torch", "executorch").
        levels: how far each backend was probed.
        unavailable: why a backend was probed less far than asked, or not at all.
        cells: by op, backend, dtype and shapes.
    """

    versions: Mapping[str, str] = field(default_factory=dict)
    levels: Mapping[str, str] = field(default_factory=dict)
    unavailable: Mapping[str, str] = field(default_factory=dict)
    cells: tuple[Cell, ...] = ()

    @property
    def columns(self) -> list[tuple[str, str, str]]:
        """Backend, dtype and shapes of each column, in order."""
        return list(dict.fromkeys(cell.column for cell in self.cells))

    @property
    def ops(self) -> list[str]:
        """The ops, in order."""
        return list(dict.fromkeys(cell.op for cell in self.cells))


def write_support(support: Support) -> str:
    """JSON with a line for each cell, so that a difference of files names what changed."""
    head = {
        "schema": SCHEMA,
        "versions": dict(support.versions),
        "levels": dict(support.levels),
        "unavailable": dict(support.unavailable),
    }
    rows = ",\n".join(f"  {json.dumps(_row(cell), ensure_ascii=False)}" for cell in support.cells)
    text = json.dumps({**head, "cells": []}, indent=1, ensure_ascii=False)
    return text.replace('"cells": []', f'"cells": [\n{rows}\n ]' if rows else '"cells": []') + "\n"


def _row(cell: Cell) -> dict[str, str]:
    found = {key: str(getattr(value, "value", value)) for key, value in asdict(cell).items()}
    return {key: value for key, value in found.items() if value}


def read_support(path: Path) -> Support:
    """A matrix from a file that `write_support` made.

    Raises:
        ConfigError: no such file, or something else is in it.
    """
    text = read_text(path)
    try:
        found = json.loads(text)
    except ValueError as error:
        raise ConfigError(f"{path}: is no JSON: {error}") from None
    if not isinstance(found, dict) or found.get("schema") != SCHEMA or "cells" not in found:
        raise ConfigError(f"{path}: is no support matrix; cede ops -f json -o FILE writes one")
    try:
        return Support(
            versions=found["versions"],
            levels=found["levels"],
            unavailable=found["unavailable"],
            cells=tuple(_cell(row) for row in found["cells"]),
        )
    except (KeyError, TypeError, ValueError) as error:
        raise ConfigError(f"{path}: is a damaged support matrix: {error}") from None


def _cell(row: dict[str, Any]) -> Cell:
    given = {**row, "answer": Answer(row["answer"]), "outcome": Outcome(row.get("outcome", ""))}
    return Cell(**given)
