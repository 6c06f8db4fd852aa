"""Two support matrices: what changed from a stored one."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from cede.support.records import Answer, Outcome

if TYPE_CHECKING:
    from cede.support.records import Cell, Support


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """One cell that is not as it was.

    Attributes:
        was: the stored cell, None for a new one.
        now: the new cell, None for one that is gone.
    """

    was: Cell | None
    now: Cell | None

    def __str__(self) -> str:
        cell = self.now or self.was
        assert cell is not None  # noqa: S101  (a change has one of both)
        return f"{' '.join(cell.key)}: {_spelt(self.was)} -> {_spelt(self.now)}"


def changes(was: Support, now: Support) -> list[Change]:
    """Cells of which the answer, its code or, where both have one, the outcome changed.

    Only what `now` was about is compared: its backends, dtypes, kinds of shapes and ops. A backend
    that could not be asked now is left out. Wordings and differences within tolerance don't count.
    """
    stored = {cell.key: cell for cell in was.cells}
    made = {cell.key: cell for cell in now.cells}
    ops, columns = set(now.ops), set(now.columns)
    found = []
    for key in {**stored, **made}:
        old, new = stored.get(key), made.get(key)
        if new is None and old is not None and not (old.op in ops and old.column in columns):
            continue
        if old is None or new is None or _differ(old, new):
            found.append(Change(was=old, now=new))
    return found


def _differ(old: Cell, new: Cell) -> bool:
    if (old.answer, old.code) != (new.answer, new.code):
        return True
    compared = Outcome.NONE not in (old.outcome, new.outcome)
    return compared and old.outcome is not new.outcome


def _spelt(cell: Cell | None) -> str:
    if cell is None:
        return "nothing"
    told = cell.word if cell.answer is not Answer.NOT_IN_TORCH else cell.answer.value
    words = cell.detail if cell.outcome not in (Outcome.RIGHT, Outcome.NONE) else cell.reason
    return f"{told} ({words})" if words else told
