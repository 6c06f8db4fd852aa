"""`cede models`."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from cede.cli import options
from cede.cli.steps import Steps
from cede.errors import ConfigError, PolicyError

if TYPE_CHECKING:
    from pathlib import Path


@click.command(short_help="Tell what each backend makes of each model.")
@click.argument("arguments", nargs=-1, required=True, metavar="MODEL... [KEY=VALUE]...")
@options.level
@options.seconds(600.0, "How long one model may take in one step.")
@click.option("--strict", is_flag=True, help="Exit 4 if a model is lowered or run and fails.")
@options.configured
@options.form("text", "markdown", "csv", "json")
@options.output("Write to this file instead of printing.")
@options.quiet
def models(
    arguments: tuple[str, ...],
    level: str,
    seconds: float,
    strict: bool,
    config: str | None,
    backends: tuple[str, ...],
    form: str,
    output: Path | None,
    quiet: bool,
) -> None:
    """Tell what each backend makes of each MODEL: share claimed, delegates, and the largest error.

    Each model is planned, lowered, run and compared with eager on each backend alone, in a child
    process. All backends are tried, or those of --backend.
    """
    options.writable(output)
    specs, overrides = _split(arguments)
    host, given = options.probed(config, backends, overrides)
    from cede.support.models import models as tried
    from cede.support.models import shown
    from cede.support.records import GOOD

    with Steps(len(specs) * len(given.backends), quiet) as steps:
        rows = tried(host, given, specs, given.backends, level, seconds, steps.step)
    width = options.width_for(output)
    options.give(shown(rows, form, width), output)
    faults = [row for row in rows if row.outcome not in GOOD]
    if strict and faults:
        told = ", ".join(f"{row.model} on {row.backend}" for row in faults)
        raise PolicyError(f"strict: {len(faults)} failed: {told}")


def _split(arguments: tuple[str, ...]) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """The models, which must be there, and the overrides."""
    from cede.named import must_be_there

    specs = tuple(text for text in arguments if "=" not in text)
    if not specs:
        raise ConfigError("give at least one MODEL")
    for spec in specs:
        must_be_there(spec)
    return specs, tuple(text for text in arguments if "=" in text)
