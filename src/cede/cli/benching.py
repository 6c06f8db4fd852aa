"""`cede bench`."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from cede.cli import options
from cede.cli.lowering import Job
from cede.cli.planning import warn
from cede.cli.steps import Steps

if TYPE_CHECKING:
    from pathlib import Path


@click.command(short_help="Run a model; print time per delegate and op left, beside predictions.")
@options.model
@options.overrides
@options.configured
@click.option(
    "--calls", type=click.IntRange(min=1), default=50, show_default=True, help="Calls that count."
)
@click.option("--verbose", "-v", is_flag=True, help="Add the kernels that delegates ran.")
@options.form("text", "markdown", "json")
@options.output("Write to this file instead of printing.")
@options.quiet
def bench(
    model: str,
    overrides: tuple[str, ...],
    config: str | None,
    backends: tuple[str, ...],
    calls: int,
    verbose: bool,
    form: str,
    output: Path | None,
    quiet: bool,
) -> None:
    """Compile MODEL, call it on its example inputs, and print where the time goes.

    Parts are measured with the runtime's tracing on, the whole without. Predictions stand beside,
    from the config's `costs` or the defaults.
    """
    from cede.reporting.bench import bench_text

    options.writable(output)
    loaded = options.costed(options.load(config, backends, overrides))
    job = Job(model=model, config=loaded, quiet=quiet, bench=True, calls=calls)
    with Steps(job.steps, quiet) as steps:
        lowered, _, timing = job.run(steps)
    report = lowered.report(timing)
    if not quiet:
        warn((*lowered.plan.warnings, *lowered.warnings))
    if form == "json":
        options.give(report.json(), output)
        return
    wide = options.width_for(output)
    text = bench_text(report, wide, markdown=form == "markdown", kernels=verbose)
    options.give(text, output)
