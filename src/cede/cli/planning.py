"""`cede plan`, `cede report` and `cede explain`."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import TYPE_CHECKING

import click

from cede.cli import options
from cede.cli.steps import Steps
from cede.errors import ConfigError

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from cede.config import Config
    from cede.model import Model
    from cede.reporting import Report
    from cede.whatif import Asked

RANKED = 3
"""How many operators `cede plan` ranks."""

RANKING = ("text", "markdown", "json", "html")
"""Forms of a report that have a ranking."""


@click.command(short_help="Settle who gets which op, without compiling.")
@options.model
@options.overrides
@options.configured
@options.form("text", "markdown", "csv", "json")
@options.output("Write the plan, as JSON, to this file; `cede lower --plan` takes it.")
@options.strict
@options.quiet
def plan(
    model: str,
    overrides: tuple[str, ...],
    config: str | None,
    backends: tuple[str, ...],
    form: str,
    output: Path | None,
    strict: bool,
    quiet: bool,
) -> None:
    """Settle who gets which op of MODEL, without compiling.

    MODEL is package.module:function, file.py:function or a .pt2 file. Prints the delegates, counts
    the ops left by reason, and names the operators whose support would merge most delegates; json
    prints the plan itself, csv the delegates.
    """
    options.writable(output)
    loaded = options.load(config, backends, overrides, strict)
    answers = asked(model, loaded, quiet)
    found = insisted(answers, loaded, rank=form in ("text", "markdown"))
    if output is not None:
        found.plan.save(output)
    if not quiet or output is None:
        click.echo(_summary(found, form), nl=False)
        click.echo(options.with_bold_titles(_ranking(found, form)), nl=False)
    if form == "csv":
        warn(found.plan.warnings)


def _print_schema(context: click.Context, _: click.Parameter, asked: bool) -> None:
    if asked:
        from cede.reporting import json_schema

        click.echo(json_schema(), nl=False)
        context.exit()


@click.command(short_help="Print the per-op delegation table.")
@options.model
@options.overrides
@options.configured
@options.form(
    "text", "markdown", "csv", "json", "html", "dot", "model-explorer", "model-explorer-data"
)
@options.output("Write to this file instead of printing.")
@click.option(
    "--schema",
    is_flag=True,
    is_eager=True,
    expose_value=False,
    callback=_print_schema,
    help="Print the JSON schema of the form json, and exit.",
)
@options.strict
@options.quiet
def report(
    model: str,
    overrides: tuple[str, ...],
    config: str | None,
    backends: tuple[str, ...],
    form: str,
    output: Path | None,
    strict: bool,
    quiet: bool,
) -> None:
    """Print who took each op of MODEL, and who left it for which reason.

    With totals by delegate, module and op type, and the three most useful things to do. html is one
    page that opens offline: the graph, tables to sort and filter, the what-if ranking. dot is for
    Graphviz; model-explorer is a graph for Google's Model Explorer, model-explorer-data the
    delegates as node data for it.
    """
    options.writable(output)
    loaded = options.load(config, backends, overrides, strict)
    made, answers = loaded_and_asked(model, loaded, quiet)
    found = insisted(answers, loaded, rank=form in RANKING)
    found = replace(found, quantization=made.quantization)
    options.give(formed(found, form, output, model), output)
    if form == "csv":
        warn(found.plan.warnings)


@click.command(short_help="Tell everything about one op.")
@options.model
@click.argument("op")
@options.overrides
@options.configured
@options.quiet
def explain(
    model: str,
    op: str,
    overrides: tuple[str, ...],
    config: str | None,
    backends: tuple[str, ...],
    quiet: bool,
) -> None:
    """Tell everything about the ops of MODEL that match OP.

    OP is an id, a part of an id or operator, or a regular expression. Shows every partitioner's
    answer, where the op comes from, its arguments, and the delegates of its neighbours.
    """
    from cede.reporting import explain as explained
    from cede.reporting import make_report

    # an unmet policy is a reason to ask, not one to refuse
    found = asked(model, options.load(config, backends, overrides), quiet)
    try:
        text = explained(make_report(found.plan, found.graph), op)
    except ConfigError as error:
        if fault := _fault(op):
            raise ConfigError(f"{op!r} is no regular expression ({fault}), and {error}") from None
        raise
    click.echo(text, nl=False)


def _fault(pattern: str) -> str | None:
    """Why a text is no regular expression, None where it is one."""
    try:
        re.compile(pattern)
    except re.error as error:
        return str(error)
    return None


def asked(model: str, config: Config, quiet: bool) -> Asked:
    """Load and export a model, ask about it and settle."""
    return loaded_and_asked(model, config, quiet)[1]


def loaded_and_asked(model: str, config: Config, quiet: bool) -> tuple[Model, Asked]:
    """As `asked`, with the model, quantized if the config says so."""
    from cede import api
    from cede.model import load_model

    with Steps(3, quiet) as steps:
        with steps.step("load"):
            found = load_model(model).quantized(config.quantize, config, steps.progress)
        with steps.step("export"):
            program = found.export()
        with steps.step("plan"):
            made = api.asked(program, config)
    return found, made


def insisted(asked: Asked, config: Config, *, rank: bool = True) -> Report:
    """The report of a plan.

    Args:
        asked: the program with its answers.
        config: it was asked with.
        rank: whether to try what the support of refused operators would change.

    Raises:
        PolicyError: the config's policy is not met, or `strict` is set and the plan is not whole.
    """
    from cede.lowering import insist_on
    from cede.reporting import make_report
    from cede.whatif import ranked

    insist_on(asked.findings)
    report = make_report(asked.plan, asked.graph)
    insist(lambda: report, config)
    return replace(report, ranking=ranked(asked)) if rank else report


def insist(report: Callable[[], Report], config: Config, warnings: tuple[str, ...] = ()) -> None:
    """Raise PolicyError if the config is strict and an op, a plugin or a warning is in the way."""
    if config.strict:
        from cede.host import Host
        from cede.reporting import require_whole

        notes = [f"warning: {warning}" for warning in warnings]
        require_whole(report(), (*notes, *Host.load(config).failures))


def formed(report: Report, form: str, path: Path | None = None, title: str = "") -> str:
    """The report in one of its forms; text is as wide as the terminal it goes to."""
    from cede.reporting.forms import formed as written

    if form == "text" and path is None:
        return report.text(options.width(), rich=options.rich())
    return written(report, form, title)


def warn(warnings: tuple[str, ...]) -> None:
    """Tell warnings on stderr."""
    for warning in warnings:
        click.echo(f"warning: {warning}", err=True)


def _summary(report: Report, form: str) -> str:
    if form == "json":
        return report.plan.to_json()
    if form == "csv":
        return report.delegates_csv()
    if form == "markdown":
        return report.summary_markdown()
    return report.summary(options.width(), rich=options.rich())


def _ranking(report: Report, form: str) -> str:
    if form not in ("text", "markdown"):
        return ""
    from cede.whatif import ranking_text

    width = options.width() if form == "text" else None
    text = ranking_text(report.ranking, RANKED, markdown=form == "markdown", width=width)
    return text and f"\n{text}"
