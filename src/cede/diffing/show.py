"""A diff, or what a gate found, as text, Markdown and JSON."""

from __future__ import annotations

import json
from dataclasses import asdict
from typing import TYPE_CHECKING

from cede.costs import seconds
from cede.reporting.tables import Table, as_markdown, as_text, quantity, share

if TYPE_CHECKING:
    from collections.abc import Sequence

    from cede.diffing.diff import Diff
    from cede.diffing.saved import Saved

LISTED = 20
"""How many ops that only one program has are named."""


def counted(ops: int) -> str:
    """A number of ops in words."""
    return f"{ops} op{'' if ops == 1 else 's'}"


def shown(given: Diff, form: str = "text", width: int | None = None) -> str:
    """A diff in one of its forms: "text", "markdown" or "json"."""
    if form == "json":
        return _json(given)
    tables = [_numbers(given), _moved(given)]
    told = [
        as_markdown(table) if form == "markdown" else as_text(table, width)
        for table in tables
        if table.rows
    ]
    moved = f"{counted(len(given.moved))} moved, {len(given.fell)} fell back"
    head = "the same" if given.same else moved
    for what, ids in (("added", given.added), ("removed", given.removed)):
        if ids:
            more = ", ..." if len(ids) > LISTED else ""
            told.append(f"{counted(len(ids))} {what}: {', '.join(ids[:LISTED])}{more}")
    return "\n\n".join([f"{given.old.name} -> {given.new.name}: {head}", *told]) + "\n"


def shown_gate(new: Saved, found: Sequence[str], given: Diff | None = None) -> str:
    """What a gate found as Markdown, for the summary page of a CI job."""
    lines = [f"# {new.name}: {'passed' if not found else 'failed'}", ""]
    lines += [f"- {finding}" for finding in found] or ["- every demand is met"]
    parts = ["\n".join(lines)]
    if given is None:
        parts.append(as_markdown(_alone(new)))
    else:
        parts += [as_markdown(table) for table in (_numbers(given), _moved(given)) if table.rows]
    return "\n\n".join(parts) + "\n"


def _figures(saved: Saved) -> dict[str, str]:
    sums = saved.totals
    found = {
        "ops": str(sums["ops"]),
        "ops in delegates": f"{sums['delegated']} ({share(sums['delegated'], sums['ops'])})",
        "delegates": str(sums["delegates"]),
    }
    found |= {f"delegates of {name}": str(n) for name, n in sorted(saved.backends.items())}
    if saved.border_bytes is not None:
        found |= {
            "FLOPs in delegates": share(sums["delegated_flops"], sums["flops"]),
            "weight bytes in delegates": share(
                sums["delegated_weight_bytes"], sums["weight_bytes"]
            ),
            "bytes over borders": quantity(saved.border_bytes, "B"),
        }
    if saved.predicted is not None:
        found["predicted a call"] = seconds(saved.predicted)
    if saved.measured is not None:
        found["measured a call"] = seconds(saved.measured)
    return found


def _alone(saved: Saved) -> Table:
    return Table(title="Figures", header=("figure", "value"), rows=list(_figures(saved).items()))


def _numbers(given: Diff) -> Table:
    old, new = _figures(given.old), _figures(given.new)
    return Table(
        title="Figures",
        header=("figure", "old", "new"),
        rows=[
            (("* " if old.get(name) != new.get(name) else "") + name,
             old.get(name, "-"), new.get(name, "-"))
            for name in dict.fromkeys([*old, *new])
        ],
    )  # fmt: skip


def _moved(given: Diff) -> Table:
    return Table(
        title="Ops that moved",
        header=("op", "module", "from", "to", "reason"),
        rows=[
            (move.op, move.module, move.old or "left", move.new or "left", move.reason)
            for move in given.moved
        ],
    )


def _json(given: Diff) -> str:
    data = {
        "same": given.same,
        "moved": [asdict(move) for move in given.moved],
        "added": list(given.added),
        "removed": list(given.removed),
        **{
            side: {
                "name": saved.name,
                "totals": saved.totals,
                "backends": saved.backends,
                "border_bytes": saved.border_bytes,
                "predicted": saved.predicted,
                "measured": saved.measured,
            }
            for side, saved in (("old", given.old), ("new", given.new))
        },
    }
    return json.dumps(data, indent=1, ensure_ascii=False) + "\n"
