"""What `--strict` asks of a plan: no op outside a delegate, no failed plugin, no warning."""

from __future__ import annotations

from typing import TYPE_CHECKING

from cede.errors import PolicyError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from cede.reporting.records import Report

SHOWN = 5


def require_whole(report: Report, failures: Sequence[object] = ()) -> None:
    """Raise unless every op that computes something is in a delegate and nothing else was lost.

    Args:
        report: of the plan.
        failures: what else was lost, such as plugins that failed to load; their texts are shown.

    Raises:
        PolicyError: names the first few ops with their reasons, all warnings and failures.
    """
    lines = []
    if left := report.left:
        lines.append(f"strict: {len(left)} of {report.totals.ops} ops are outside a delegate:")
        lines += [f"  {report.graph.op(row.op).where}: {row.reason}" for row in left[:SHOWN]]
        if len(left) > SHOWN:
            lines.append(f"  and {len(left) - SHOWN} more (`cede report` lists all)")
    lines += [f"strict: warning: {warning}" for warning in report.plan.warnings]
    lines += [f"strict: {failure}" for failure in failures]
    if lines:
        raise PolicyError("\n".join(lines))
