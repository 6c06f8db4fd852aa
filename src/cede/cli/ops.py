"""`cede ops`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from cede.cli import options
from cede.cli.steps import Steps
from cede.errors import PolicyError

if TYPE_CHECKING:
    from cede.support.records import Support

DTYPES = (
    "float32", "float16", "bfloat16", "float64", "int8", "uint8", "int16", "int32", "int64", "bool",
)  # fmt: skip


@click.command(short_help="Probe which ops each backend takes, and whether it is right.")
@options.overrides
@click.option(
    "--op",
    "patterns",
    multiple=True,
    metavar="PATTERN",
    help='Only these ops, such as add, "aten.max*" or conv2d; repeatable.',
)
@click.option(
    "--dtype",
    "dtypes",
    multiple=True,
    type=click.Choice(DTYPES),
    default=("float32",),
    show_default=True,
    help="Dtype of the data; repeatable.",
)
@click.option(
    "--static/--dynamic",
    "static",
    default=None,
    help="Only fixed shapes, or only a symbolic first dimension (default: both).",
)
@options.level
@options.seconds(120.0, "How long one op may take in one step.")
@click.option(
    "--against",
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="Print only what changed since this matrix (JSON).",
)
@click.option(
    "--strict",
    is_flag=True,
    help="Exit 4 if a claimed op is not right, or --against finds changes.",
)
@options.configured
@options.form("text", "markdown", "csv", "json")
@options.output("Write to this file instead of printing.")
@options.quiet
def ops(
    overrides: tuple[str, ...],
    patterns: tuple[str, ...],
    dtypes: tuple[str, ...],
    static: bool | None,
    level: str,
    seconds: float,
    against: Path | None,
    strict: bool,
    config: str | None,
    backends: tuple[str, ...],
    form: str,
    output: Path | None,
    quiet: bool,
) -> None:
    """Probe which ops each backend takes, and whether it computes them right.

    Every op of the core ATen set and common functions are tried with tiny inputs: whether they are
    claimed, and why not; whether they can be lowered; and whether the program that runs here gives
    what eager gives. All backends are probed, or those of --backend, each alone.
    """
    options.writable(output)
    from cede.support.compare import changes
    from cede.support.records import read_support
    from cede.support.show import changes_text, shown

    stored = read_support(against) if against is not None else None
    shapes = {None: ("static", "dynamic"), True: ("static",), False: ("dynamic",)}[static]
    made = _probed(config, backends, overrides, patterns, dtypes, shapes, level, seconds, quiet)
    changed = changes(stored, made) if stored is not None else []
    if stored is None or form != "text" or output is not None:
        width = options.width_for(output)
        options.give(shown(made, form, width), output)
    if stored is not None:
        click.echo(
            changes_text(changed, str(against)), nl=False, err=output is None and form != "text"
        )
    if strict:
        _insist(made, len(changed))


def _probed(
    config: str | None,
    backends: tuple[str, ...],
    overrides: tuple[str, ...],
    patterns: tuple[str, ...],
    dtypes: tuple[str, ...],
    shapes: tuple[str, ...],
    level: str,
    seconds: float,
    quiet: bool,
) -> Support:
    host, given = options.probed(config, backends, overrides)
    from cede.support.matrix import Wanted, matching, support

    wanted = Wanted(
        backends=tuple(given.backends),
        dtypes=tuple(dict.fromkeys(dtypes)),
        shapes=shapes,
        ops=matching(patterns),
        level=level,
        seconds=seconds,
    )
    with Steps(wanted.steps, quiet) as steps:
        return support(host, given, wanted, steps.step)


def _insist(made: Support, changed: int) -> None:
    from cede.support.records import GOOD

    faults = sum(cell.outcome not in GOOD for cell in made.cells)
    told = []
    if faults:
        told.append(f"{faults} claimed and not right")
    if changed:
        told.append(f"{changed} changed")
    if told:
        raise PolicyError(f"strict: {', '.join(told)}")
