"""The delegation table: ExecuTorch's counts, with the backend, the layers and the reason."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from cede.reporting.tables import Table, as_text

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from cede.reporting.records import Report, Row

_LAYER = re.compile(r"((?:[^.]+\.)*?[^.]+)\.(\d+)(?:\.|$)")
_GETITEM = "getitem"
_LEAVES = "takes a value out of a delegate"

Key = tuple[str, str, str]


def delegation(report: Report, width: int | None = None) -> str:
    """ExecuTorch's counts, and who has the nodes of each op type or why they are left."""
    table = as_text(delegation_table(report), width)
    return "\n".join([*counts(report), "", table]) + "\n"


def counts(report: Report) -> list[str]:
    """The three lines over ExecuTorch's own table (`get_delegation_info`)."""
    inside = sum(total.delegated for total in report.by_type)
    outside = sum(total.non_delegated for total in report.by_type)
    return [
        f"Total delegated subgraphs: {report.totals.delegates}",
        f"Number of delegated nodes: {inside}",
        f"Number of non-delegated nodes: {outside}",
    ]


def delegation_table(report: Report) -> Table:
    """One line for the nodes of an op type that one backend has, or that are left for one reason.

    The nodes are those that `counts` counts.
    """
    groups: dict[Key, list[Row]] = {}
    for row in report.rows:
        if not row.scope:
            key = re.sub(r"_\d+$", "", row.op), row.backend, row.reason
            groups.setdefault(key, []).append(row)
    lines = [
        (op_type, str(len(rows)), backend or "-", layers(row.module for row in rows), reason)
        for (op_type, backend, reason), rows in groups.items()
    ]
    counted = {total.op_type: total.delegated + total.non_delegated for total in report.by_type}
    own = sum(len(rows) for (op_type, _, _), rows in groups.items() if op_type == _GETITEM)
    if leaving := counted.get(_GETITEM, 0) - own:
        lines.append((_GETITEM, str(leaving), "-", "", _LEAVES))
    return Table(
        title="Delegation",
        header=("op type", "nodes", "backend", "layers", "reason"),
        rows=sorted(lines),
        right=frozenset({1}),
    )


def layers(modules: Iterable[str]) -> str:
    """Where modules are: "layers.0-29, norm"; numbered ones as ranges, others by first name."""
    numbers: dict[str, set[int]] = {}
    for module in modules:
        if found := _LAYER.match(module):
            numbers.setdefault(found[1], set()).add(int(found[2]))
        elif module:
            numbers.setdefault(module.partition(".")[0], set())
    return ", ".join(
        f"{name}.{','.join(_ranges(sorted(held)))}" if held else name
        for name, held in sorted(numbers.items())
    )


def _ranges(numbers: list[int]) -> Iterator[str]:
    first = 0
    for i, number in enumerate(numbers):
        if i + 1 == len(numbers) or numbers[i + 1] != number + 1:
            yield f"{numbers[first]}-{number}" if number > numbers[first] else str(number)
            first = i + 1
