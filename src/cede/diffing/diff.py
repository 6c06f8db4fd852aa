"""What changed between two plans, or two reports."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from cede.errors import ConfigError

if TYPE_CHECKING:
    from cede.diffing.saved import Saved


@dataclass(frozen=True, slots=True, kw_only=True)
class Moved:
    """An op that somebody else computes now.

    Attributes:
        op: its id in the new program.
        module: path of the module that made it, "" where the files are plans.
        old: backend that computed it, "" when it was left.
        new: backend that computes it, "" when it is left.
        reason: why it is left, or was; "" where it never was.
    """

    op: str
    module: str
    old: str
    new: str
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Diff:
    """What changed.

    Attributes:
        old: before.
        new: after.
        moved: ops that another backend computes, that fell back, or that no longer do.
        added: ids of ops that only the new program has.
        removed: ids of ops that only the old program has.
    """

    old: Saved
    new: Saved
    moved: tuple[Moved, ...]
    added: tuple[str, ...]
    removed: tuple[str, ...]

    @property
    def fell(self) -> tuple[Moved, ...]:
        """The ops that were in a delegate and are left now."""
        return tuple(move for move in self.moved if not move.new)

    @property
    def same(self) -> bool:
        """Whether every op is where it was and every delegate is as it was."""
        return not (self.moved or self.added or self.removed) and _cuts(self.old) == _cuts(self.new)


def diff(old: Saved, new: Saved) -> Diff:
    """Compare op by op. O(ops).

    Ops of reports are matched by module, operator and order, so that an op added elsewhere moves
    none; those of plans by id.

    Raises:
        ConfigError: one is a plan and the other a report.
    """
    if old.kind != new.kind:
        raise ConfigError(
            f"{old.name} is a {old.kind} and {new.name} a {new.kind}; compare two of a kind"
        )
    moved = [
        Moved(op=op.id, module=key[1] if len(key) > 1 else "", old=before.backend,
              new=op.backend, reason=op.reason or before.reason)
        for key, op in new.ops.items()
        if not op.bookkeeping
        and (before := old.ops.get(key)) is not None
        and before.backend != op.backend
    ]  # fmt: skip
    return Diff(
        old=old,
        new=new,
        moved=tuple(moved),
        added=_only(new, old),
        removed=_only(old, new),
    )


def _only(one: Saved, other: Saved) -> tuple[str, ...]:
    return tuple(op.id for key, op in one.ops.items() if key not in other.ops)


def _cuts(saved: Saved) -> set[frozenset[tuple[str, ...]]]:
    """The delegates, whatever their ids."""
    groups: dict[str, list[tuple[str, ...]]] = {}
    for key, op in saved.ops.items():
        if op.delegate:
            groups.setdefault(op.delegate, []).append(key)
    return {frozenset(keys) for keys in groups.values()}
