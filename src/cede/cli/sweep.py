"""`cede sweep`."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import click

from cede.cli import options
from cede.errors import ConfigError, LoweringError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from cede.sweep import Results, Row, SweepConfig, Task

SHOWN = 10
"""How many rows that failed an error names."""


@click.command(short_help="Try many models with many configs, into one table.")
@click.argument("arguments", nargs=-1, metavar="[SWEEP.yaml] [MODEL]... [KEY=VALUE]...")
@click.option(
    "--config",
    "-c",
    "configs",
    multiple=True,
    metavar="FILE|NAME",
    help="A YAML file, or the name of a ready config; repeatable.",
)
@click.option(
    "--output",
    "-o",
    required=True,
    type=click.Path(path_type=Path),
    help="The table, a SQLite file. One that is there is gone on with.",
)
@click.option(
    "--parquet",
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="Write the rows as Parquet, too (needs cede[parquet]).",
)
@click.option(
    "--level",
    type=click.Choice(["claim", "lower", "run"]),
    help="How far to go (default: run, which compares with eager).",
)
@click.option(
    "--calls",
    type=click.IntRange(min=0),
    help="How many calls to measure after that (default: 0). Other processes disturb them: use "
    "--jobs 1.",
)
@click.option(
    "--seconds",
    type=click.FloatRange(min=0, min_open=True),
    help="How long one step of one model may take (default: 600).",
)
@click.option(
    "--jobs",
    "-j",
    type=click.IntRange(min=0),
    help="How many processes at a time (default: 0, one a core).",
)
@click.option(
    "--engine",
    metavar="local|dask://HOST:PORT",
    help="Where it runs: in processes here (default), or on a Dask cluster (needs cede[dask]).",
)
@click.option("--retry", is_flag=True, help="Try those again that failed, not only those left.")
@options.form("text", "markdown", "csv", "json")
@options.quiet
def sweep(
    arguments: tuple[str, ...],
    configs: tuple[str, ...],
    output: Path,
    parquet: Path | None,
    retry: bool,
    form: str,
    quiet: bool,
    **given: object,
) -> None:
    """Try every MODEL with every config, each in a child process, and print the table.

    SWEEP.yaml has models, configs and the options below; what is given here goes before it. A model
    that fails, crashes or takes too long is a row. A row is written when it is done: the same
    command goes on after a kill, and does again only what changed. Exits with 5 where a row failed.
    """
    options.writable(output, parquet)
    from cede.sweep import Results, check_engine, shown, tasks
    from cede.sweep import parquet as as_parquet

    asked = _asked(arguments, configs, given)
    check_engine(asked.engine)
    wanted = tasks(asked)
    if parquet is not None:
        as_parquet([])  # tells at once where it can't be had
    with Results(output) as results:
        _do(wanted, asked, results, retry, quiet)
        found = results.rows()
    rows = [found[task.model, task.name][1] for task in wanted]
    if parquet is not None:
        from cede.files import write_whole

        write_whole(parquet, as_parquet(rows))
    click.echo(shown(rows, form, options.width(), rich=options.rich()), nl=False)
    _tell_faults(rows, output)


def _asked(
    arguments: tuple[str, ...], configs: tuple[str, ...], given: dict[str, object]
) -> SweepConfig:
    """The settings of the file, if any, with what the command line says."""
    from cede.config.fit import Problems, fit
    from cede.sweep.settings import SweepConfig, VariantConfig, read_sweep

    overrides = [text for text in arguments if "=" in text]
    files = [text for text in arguments if text.endswith((".yaml", ".yml")) and "=" not in text]
    if len(files) > 1:
        raise ConfigError(f"give one SWEEP.yaml, not {' and '.join(files)}")
    found = read_sweep(Path(files[0])) if files else SweepConfig()
    told = {name: value for name, value in given.items() if value is not None}
    problems = Problems(origin=lambda path: f"--{path}")
    checked = fit(SweepConfig, told, "", problems)
    if problems.lines:
        raise ConfigError("\n".join(problems.lines))
    found = replace(found, **{name: getattr(checked, name) for name in told})
    models = [text for text in arguments if text not in files and text not in overrides]
    variants = {name: VariantConfig(config=name) for name in configs}
    return replace(
        found,
        models=[*found.models, *models],
        configs={
            name: replace(variant, overrides=[*variant.overrides, *overrides])
            for name, variant in {**found.configs, **variants}.items()
        },
    )


def _do(
    wanted: Sequence[Task], asked: SweepConfig, results: Results, retry: bool, quiet: bool
) -> None:
    """Do what the table lacks; each row is written as it comes."""
    from contextlib import closing

    from cede.sweep import rows_from
    from cede.sweep.row import FAULTS

    def tell(text: str) -> None:
        if not quiet:
            click.echo(text, err=True)

    there = results.rows()

    def lacks(task: Task) -> bool:
        key, row = there.get((task.model, task.name), ("", None))
        return key != task.key or (retry and row is not None and row.outcome in FAULTS)

    todo = [task for task in wanted if lacks(task)]
    if len(todo) < len(wanted):
        tell(f"{len(wanted) - len(todo)} of {len(wanted)} rows are there")
    with closing(rows_from(asked.engine, todo, asked.seconds, asked.jobs, tell)) as made:
        for count, (task, row) in enumerate(made, 1):
            results.put(row, task.key)
            told = f"{count}/{len(todo)} {row.model} with {row.config}: {row.outcome.value}"
            tell(f"{told} ({row.took:.1f} s)")


def _tell_faults(rows: Sequence[Row], output: Path) -> None:
    from cede.sweep.row import FAULTS

    faults = [row for row in rows if row.outcome in FAULTS]
    if faults:
        named = [f"  {row.model} with {row.config}: {row.outcome.value}" for row in faults[:SHOWN]]
        named += [f"  and {len(faults) - SHOWN} more"] if len(faults) > SHOWN else []
        told = f"{output}: {len(faults)} of {len(rows)} rows failed:"
        raise LoweringError("\n".join([told, *named]))
