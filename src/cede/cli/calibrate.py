"""`cede calibrate`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from cede.cli import options
from cede.cli.steps import Steps

if TYPE_CHECKING:
    from cede.costs import Profile

BUSY = 0.5
"""The load from which on a measurement is worth a warning."""


@click.command(short_help="Measure this machine for cost mode.")
@options.overrides
@options.configured
@click.option(
    "--output", "-o", required=True, type=click.Path(path_type=Path), help="The profile to write."
)
@options.quiet
def calibrate(
    overrides: tuple[str, ...],
    config: str | None,
    backends: tuple[str, ...],
    output: Path,
    quiet: bool,
) -> None:
    """Measure what ops, launches and borders cost here, and write a profile.

    Measured are ExecuTorch's own kernels and every backend that its runtime has here, or those of
    --backend. A config names the profile with `costs: FILE`. Keep the machine idle meanwhile.
    """
    options.writable(output)
    from dataclasses import replace

    from cede.costs import write_profile
    from cede.files import write_whole
    from cede.host import Host

    given = options.load(config, backends, overrides)
    if not options.backends_named(config, backends, given):
        given = replace(given, backends=[])
    host = Host.load(given)
    from cede.calibrate.run import calibrate as measure
    from cede.calibrate.run import steps_of

    with Steps(steps_of(host, given), quiet) as steps:
        profile = measure(host, given, steps.step)
    write_whole(output, write_profile(profile).encode())
    if not quiet:
        if warning := _busy(profile):
            click.echo(f"warning: {warning}", err=True)
        click.echo(f"{output}: {_summary(profile)}")


def _busy(profile: Profile) -> str:
    """A warning if others wanted the cores too, "" if not."""
    load = profile.machine.get("load", "unknown")
    if load == "unknown" or float(load) < BUSY:
        return ""
    return f"the machine was busy (load {load}), so what was measured may be too slow; do it again"


def _summary(profile: Profile) -> str:
    measured = [f"{len(profile.fallback.measured)} kinds of ops without a delegate"]
    measured += [f"{len(r.measured)} on {name}" for name, r in sorted(profile.backends.items())]
    skipped = f"; {len(profile.skipped)} skipped" if profile.skipped else ""
    return ", ".join(measured) + skipped
