"""`cede verify` and `cede bisect`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from cede.cli import options
from cede.cli.lowering import Job
from cede.cli.planning import warn
from cede.cli.steps import Steps
from cede.errors import ConfigError, LoweringError, PolicyError

if TYPE_CHECKING:
    from cede.lowering import Lowered
    from cede.model import Model
    from cede.verifying.records import Verification


@click.command(short_help="Compare each delegate, then the whole, with eager on many inputs.")
@options.model
@options.overrides
@options.configured
@click.option(
    "--program",
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="Run this .pte instead of lowering MODEL; its delegates are not run alone.",
)
@options.weights
@options.seconds(600.0, "How long the process that loads the program from a file may take.")
@click.option("--strict", is_flag=True, help="Exit 4 if NaN or extreme inputs differ.")
@click.option("--verbose", "-v", is_flag=True, help="A row for each comparison, right or not.")
@options.form("text", "markdown", "json")
@options.output("Write to this file instead of printing.")
@options.quiet
def verify(
    model: str,
    overrides: tuple[str, ...],
    config: str | None,
    backends: tuple[str, ...],
    program: Path | None,
    weights: Path | None,
    seconds: float,
    strict: bool,
    verbose: bool,
    form: str,
    output: Path | None,
    quiet: bool,
) -> None:
    """Lower MODEL and compare with eager: every delegate alone on eager's values, then the whole.

    The example inputs are called three times in a row, then at both bounds of dynamic sizes and
    between, as zeros, large numbers, NaN and infinity, and once more with the program loaded from a
    file in a process of its own. What differs on NaN and extreme inputs alone is told and does not
    fail. Exit code 5 if a comparison fails.
    """
    from cede.verifying import verify as verified
    from cede.verifying import verify_file

    options.writable(output)
    loaded = options.load(config, backends, overrides)
    if program is not None:
        made = _model(model, quiet)
        given = made.export(), [made.call], loaded
        found = verify_file(program, *given, seconds=seconds, weights=weights)
    elif weights is not None:
        raise ConfigError("--external-weights goes with --program")
    else:
        lowered, made = _lowered(model, loaded, quiet)
        found = verified(lowered, [made.call], loaded, seconds=seconds)
    options.give(_formed(found, form, output, verbose), output)
    if not found.passed:
        raise LoweringError(f"{model}: {found.message}")
    if strict and not found.exact:
        raise PolicyError(f"strict: {model}: {found.message}")


@click.command(short_help="Name the delegate and the op that make a program wrong.")
@options.model
@options.overrides
@options.configured
@options.quiet
def bisect(
    model: str,
    overrides: tuple[str, ...],
    config: str | None,
    backends: tuple[str, ...],
    quiet: bool,
) -> None:
    """Lower MODEL, find the first delegate that differs from eager, and the op that it gets wrong.

    Ever shorter beginnings of that delegate are compiled and run on eager's values. Exit code 5 if
    there is a culprit.
    """
    from cede.verifying import bisect as bisected

    loaded = options.load(config, backends, overrides)
    lowered, made = _lowered(model, loaded, quiet)
    found = bisected(lowered, [made.call], loaded)
    if found is not None:
        raise LoweringError(f"{model}: {found.message}")
    click.echo(f"{model}: every delegate alone agrees with eager on the example inputs")


def _formed(found: Verification, form: str, output: Path | None, verbose: bool) -> str:
    if form == "json":
        return found.json()
    if form == "markdown":
        return found.markdown(verbose)
    return found.text(options.width_for(output), verbose)


def _lowered(model: str, config: Any, quiet: bool) -> tuple[Lowered, Model]:
    job = Job(model=model, config=config, quiet=quiet)
    with Steps(job.steps, quiet) as steps:
        lowered, made, _ = job.run(steps)
    if not quiet:
        warn((*lowered.plan.warnings, *lowered.warnings))
    return lowered, made


def _model(model: str, quiet: bool) -> Model:
    from cede.model import load_model

    with Steps(1, quiet) as steps, steps.step("load"):
        return load_model(model)
