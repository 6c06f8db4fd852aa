"""A plan or a report as it lies in a file: what two of them can be compared by."""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from cede.errors import ConfigError
from cede.files import read_text
from cede.planning import Plan
from cede.reporting.records import SCHEMA

if TYPE_CHECKING:
    from pathlib import Path

NUMBERS = (
    "ops", "delegated", "delegates", "flops", "delegated_flops", "weight_bytes",
    "delegated_weight_bytes",
)  # fmt: skip
"""The totals of a report."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SavedOp:
    """One op.

    Attributes:
        id: in its own program.
        backend: that computes it, "" when left.
        delegate: id of its delegation, "" when left.
        reason: why it was left, "" when taken.
        bookkeeping: whether it computes nothing.
    """

    id: str
    backend: str
    delegate: str
    reason: str
    bookkeeping: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Saved:
    """A plan or a report.

    Attributes:
        name: of its file.
        kind: "plan" or "report".
        ops: by what stays the same in a changed program: scope, module, operator and place
            among those that share these. A plan knows ids only.
        totals: by name (`NUMBERS`); a plan knows "ops", "delegated" and "delegates".
        border_bytes: of all values that go into a delegate or come out, None of a plan.
        backends: how many delegates each backend has.
        predicted: seconds of one call, None where the file has none.
        measured: the same.
    """

    name: str
    kind: str
    ops: dict[tuple[str, ...], SavedOp] = field(repr=False)
    totals: dict[str, int]
    border_bytes: int | None
    backends: dict[str, int]
    predicted: float | None = None
    measured: float | None = None


def read_saved(path: Path) -> Saved:
    """Read what `cede plan -o` or `cede report -f json -o` wrote.

    Raises:
        ConfigError: the file can't be read, or is neither.
        PlanError: it is a plan with a mistake, named by its path.
    """
    text = read_text(path)
    try:
        data = json.loads(text)
    except (json.JSONDecodeError, RecursionError) as error:
        raise ConfigError(f"{path}: not JSON ({error})") from None
    if isinstance(data, dict) and "delegations" in data:
        return _of_plan(Plan.from_json(text, str(path)), path.name)
    if not isinstance(data, dict) or not {"ops", "totals", "delegates"} <= data.keys():
        raise ConfigError(
            f"{path}: neither a plan (cede plan -o) nor a report (cede report -f json -o)"
        )
    if data.get("schema") != SCHEMA:
        raise ConfigError(f"{path}: schema: is {data.get('schema')}, this cede reads {SCHEMA}")
    try:
        return _of_report(data, path.name)
    except (KeyError, TypeError, AttributeError, ValueError) as error:
        told = f"{type(error).__name__}: {error}"
        raise ConfigError(f"{path}: not a report as cede writes it ({told})") from None


def _of_plan(plan: Plan, name: str) -> Saved:
    ops: dict[tuple[str, ...], SavedOp] = {}
    for given in plan.delegations:
        for id in given.ops:
            ops[(id,)] = SavedOp(id=id, backend=given.backend, delegate=given.id, reason="")
    for id, told in plan.reasons().items():
        if (id,) not in ops:
            ops[(id,)] = SavedOp(id=id, backend="", delegate="", reason=told)
    taken = sum(bool(op.delegate) for op in ops.values())
    return Saved(
        name=name,
        kind="plan",
        ops=ops,
        totals={"ops": len(ops), "delegated": taken, "delegates": len(plan.delegations)},
        border_bytes=None,
        backends=dict(Counter(given.backend for given in plan.delegations)),
    )


def _of_report(data: dict[str, Any], name: str) -> Saved:
    seen: Counter[tuple[str, ...]] = Counter()
    ops: dict[tuple[str, ...], SavedOp] = {}
    for row in data["ops"]:
        place = (row["scope"], row["module"], row["target"])
        ops[(*place, str(seen[place]))] = SavedOp(
            id=row["op"],
            backend=row["backend"],
            delegate=row["delegate"],
            reason=row["reason"],
            bookkeeping=bool(row["bookkeeping"]),
        )
        seen[place] += 1
    delegates = data["delegates"]
    return Saved(
        name=name,
        kind="report",
        ops=ops,
        totals={number: int(data["totals"][number]) for number in NUMBERS},
        border_bytes=sum(given["bytes_in"] + given["bytes_out"] for given in delegates),
        backends=dict(Counter(given["backend"] for given in delegates)),
        predicted=data.get("predicted", {}).get("seconds"),
        measured=data.get("measured", {}).get("seconds"),
    )
