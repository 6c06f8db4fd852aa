"""`cede quantize`."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import click

from cede.cli import options
from cede.cli.planning import warn
from cede.cli.steps import Steps
from cede.errors import ConfigError

if TYPE_CHECKING:
    from pathlib import Path

    from cede.config import Config
    from cede.model import Model
    from cede.quant.pt2e import AnnotationReport
    from cede.quant.source import QuantizationReport, Suggestion

    Told = QuantizationReport | AnnotationReport | Suggestion


@click.command(short_help="Quantize a model in its source; print what became of each module.")
@options.model
@options.overrides
@options.configured
@click.option("--compare", is_flag=True, help="Compare outputs on the calls with float.")
@click.option("--rank", is_flag=True, help="Rank modules by the output error of each alone.")
@click.option(
    "--suggest",
    metavar="ERROR",
    help="Suggest rules that keep the outputs within this relative error: 0.02, 2% or 34dB.",
)
@click.option(
    "--candidate",
    "candidates",
    multiple=True,
    metavar="MODE[:GROUP]",
    help="What --suggest tries, repeatable; BITS,GROUP for embeddings.",
)
@click.option(
    "--calls",
    metavar="FILE|file.py:function",
    help="Inputs to measure on, as for calibration; the example inputs otherwise.",
)
@options.form("text", "markdown", "json")
@options.output("Write to this file instead of printing.")
@options.strict
@options.quiet
def quantize(
    model: str,
    overrides: tuple[str, ...],
    config: str | None,
    backends: tuple[str, ...],
    compare: bool,
    rank: bool,
    suggest: str | None,
    candidates: tuple[str, ...],
    calls: str | None,
    form: str,
    output: Path | None,
    strict: bool,
    quiet: bool,
) -> None:
    """Quantize MODEL as the config's section `quantize` says, and print a row for each module.

    For instance: cede quantize models.py:make quantize.mode=8da4w quantize.embedding=4,32.
    With quantize.pt2e the rows are about the ops of the exported program.
    Nothing is exported or written but the report; `cede export` with the same config does both.
    With --suggest the config names no mode: what is printed are rules to paste into one.
    With --strict a module that is left, or a warning, is an error.
    """
    from cede.errors import PolicyError

    options.writable(output)
    loaded = options.load(config, backends, overrides, strict)
    _check(loaded, compare, rank, suggest, candidates, calls)
    rows: Told = (
        _rows(model, loaded, compare, rank, calls, quiet)
        if suggest is None
        else _suggested(model, loaded, suggest, candidates, calls, quiet)
    )
    _give(rows, form, output, quiet)
    left = [f"{row.module or '(the model)'}: {row.note}" for row in rows.left]
    if strict and (left or rows.warnings):
        raise PolicyError("strict: " + "; ".join([*rows.warnings, *left]))


def _give(rows: Told, form: str, output: Path | None, quiet: bool) -> None:
    wide = options.width_for(output)
    text = {"text": lambda: rows.text(wide), "markdown": rows.markdown, "json": rows.json}[form]()
    options.give(text, output)
    if not quiet:
        warn(rows.warnings)


def _check(
    config: Config,
    compare: bool,
    rank: bool,
    suggest: str | None,
    candidates: tuple[str, ...],
    calls: str | None,
) -> None:
    """Refuse options that don't go together, before any work."""
    from cede.config import QuantizeConfig

    if suggest is None and config.quantize == QuantizeConfig():
        raise ConfigError("nothing to quantize: give quantize.mode=8da4w, say, or a config")
    if suggest is not None and (compare or rank):
        raise ConfigError("--suggest has its own rows: leave --compare and --rank out")
    if suggest is None and candidates:
        raise ConfigError("--candidate is for --suggest")
    if calls is not None and not (compare or rank or suggest):
        raise ConfigError("--calls is what --compare, --rank and --suggest measure on: give one")
    if config.quantize.pt2e and (rank or suggest is not None or calls is not None):
        raise ConfigError(
            "--rank, --suggest and --calls are about modules of a model's source: leave"
            " quantize.pt2e out"
        )


def _suggested(
    model: str,
    config: Config,
    text: str,
    candidates: tuple[str, ...],
    calls: str | None,
    quiet: bool,
) -> Suggestion:
    from cede.model import load_model
    from cede.quant.source import CANDIDATES, read_error, suggest_quantization

    try:
        error = read_error(text)
    except ValueError:
        raise ConfigError(f"--suggest: {text!r} is no error, such as 0.02, 2% or 34dB") from None
    with Steps(2, quiet) as steps:
        with steps.step("load"):
            found = load_model(model)
        with steps.step("suggest"):
            return suggest_quantization(
                found.source(), found.calls(calls), error, candidates or CANDIDATES,
                config.quantize, found.kwargs,
            )  # fmt: skip


def _rows(
    model: str, config: Config, compare: bool, rank: bool, calls: str | None, quiet: bool
) -> QuantizationReport | AnnotationReport:
    from cede.model import load_model
    from cede.quant.pt2e import AnnotationReport
    from cede.quant.source import rank_layers

    with Steps(2 + compare + rank, quiet) as steps:
        with steps.step("load"):
            found = load_model(model)
        with steps.step("quantize"):
            made = found.quantized(config.quantize, config, steps.progress)
        rows = made.quantization
        assert rows is not None  # noqa: S101  (the config asks for it)
        if compare:
            with steps.step("compare"):
                rows = _compared(rows, found, made, calls)
        if rank and not isinstance(rows, AnnotationReport):
            given = found.calls(calls)
            with steps.step("rank"):
                ranked = rank_layers(found.source(), given, config.quantize, found.kwargs)
            rows = replace(rows, ranking=ranked)
    return rows


def _compared(
    rows: QuantizationReport | AnnotationReport, before: Model, after: Model, calls: str | None
) -> QuantizationReport | AnnotationReport:
    from cede.quant.pt2e import AnnotationReport
    from cede.quant.source import compared, compared_programs

    if isinstance(rows, AnnotationReport):
        noise = compared_programs(before.export(), after.export(), before.call)
        return replace(rows, output_sqnr=noise)
    return compared(rows, before.source(), after.source(), before.calls(calls), before.kwargs)
