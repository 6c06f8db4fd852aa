"""`cede diff` and `cede gate`."""

from __future__ import annotations

from pathlib import Path

import click

from cede.cli import options
from cede.errors import PolicyError

FILE = click.Path(path_type=Path, exists=True, dir_okay=False)


@click.command(short_help="Tell what changed between two plans or two reports.")
@click.argument("old", type=FILE)
@click.argument("new", type=FILE)
@click.option("--exit-code", is_flag=True, help="Exit 4 if anything changed.")
@options.form("text", "markdown", "json")
@options.output("Write to this file instead of printing.")
def diff(old: Path, new: Path, exit_code: bool, form: str, output: Path | None) -> None:
    """Tell what changed from OLD to NEW: coverage, delegates, bytes, seconds, and ops that moved.

    OLD and NEW are two plans (`cede plan -o`) or two reports (`cede report -f json -o`, or
    `cede bench -f json -o` with seconds). Ops of reports are matched by module, operator and order,
    so that an op added elsewhere moves none.
    """
    from cede.diffing import counted, read_saved, shown
    from cede.diffing import diff as compare

    options.writable(output)
    found = compare(read_saved(old), read_saved(new))
    options.give(shown(found, form, options.width_for(output)), output)
    if exit_code and not found.same:
        raise PolicyError(f"{new} is not as {old}: {counted(len(found.moved))} moved")


@click.command(short_help="Hold a report against what a project demands; for CI.")
@click.argument("report", type=FILE)
@click.option(
    "--min-coverage", type=click.FloatRange(0, 1), help="Least share of ops in delegates, 0 to 1."
)
@click.option(
    "--min-flops", type=click.FloatRange(0, 1), help="Least share of FLOPs in delegates, 0 to 1."
)
@click.option("--max-delegates", type=click.IntRange(min=0), help="Most delegates.")
@click.option(
    "--max-seconds",
    type=click.FloatRange(min=0),
    help="Most seconds of one call: measured ones, or predicted where none were measured.",
)
@click.option(
    "--baseline",
    type=FILE,
    help="An older report: no op that was in a delegate may be left, and without --max-delegates "
    "there may be no more delegates.",
)
@click.option(
    "--max-slower",
    type=click.FloatRange(min=0),
    help="How much slower than the baseline a call may be: 0.1 for 10 %.",
)
@options.output("Write the summary to this file instead of printing it.")
def gate(
    report: Path,
    min_coverage: float | None,
    min_flops: float | None,
    max_delegates: int | None,
    max_seconds: float | None,
    baseline: Path | None,
    max_slower: float | None,
    output: Path | None,
) -> None:
    """Hold REPORT, a file of `cede report -f json -o`, against demands.

    Prints a summary in Markdown. Exits with 4 and names every demand that is not met.
    """
    from cede.diffing import Demands, diff, read_saved, shown_gate
    from cede.diffing import gate as unmet

    options.writable(output)
    new, old = read_saved(report), read_saved(baseline) if baseline else None
    demands = Demands(
        coverage=min_coverage,
        flops=min_flops,
        delegates=max_delegates,
        seconds=max_seconds,
        slower=max_slower,
    )
    found = unmet(new, demands, old)
    options.give(shown_gate(new, found, diff(old, new) if old else None), output)
    if found:
        raise PolicyError("\n".join([f"{report} fails:", *(f"  {finding}" for finding in found)]))
