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
    from cede.quant.source import QuantizationReport


@click.command(short_help="Quantize a model in its source; print what became of each module.")
@options.model
@options.overrides
@options.configured
@click.option("--compare", is_flag=True, help="Compare outputs on the example inputs with float.")
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
    form: str,
    output: Path | None,
    strict: bool,
    quiet: bool,
) -> None:
    """Quantize MODEL as the config's section `quantize` says, and print a row for each module.

    For instance: cede quantize models.py:make quantize.mode=8da4w quantize.embedding=4,32.
    With quantize.pt2e the rows are about the ops of the exported program.
    Nothing is exported or written but the report; `cede export` with the same config does both.
    With --strict a module that is left is an error.
    """
    from cede.config import QuantizeConfig
    from cede.errors import PolicyError

    options.writable(output)
    loaded = options.load(config, backends, overrides, strict)
    if loaded.quantize == QuantizeConfig():
        raise ConfigError("nothing to quantize: give quantize.mode=8da4w, say, or a config")
    rows = _rows(model, loaded, compare, quiet)
    wide = options.width() if output is None else None
    text = {"text": lambda: rows.text(wide), "markdown": rows.markdown, "json": rows.json}[form]()
    options.give(text, output)
    if not quiet:
        warn(rows.warnings)
    if strict and rows.left:
        raise PolicyError("strict: " + "; ".join(f"{row.module}: {row.note}" for row in rows.left))


def _rows(
    model: str, config: Config, compare: bool, quiet: bool
) -> QuantizationReport | AnnotationReport:
    from cede.model import load_model

    with Steps(2 + compare, quiet) as steps:
        with steps.step("load"):
            found = load_model(model)
        with steps.step("quantize"):
            made = found.quantized(config.quantize, config, steps.progress)
        rows = made.quantization
        assert rows is not None  # noqa: S101  (the config asks for it)
        if compare:
            with steps.step("compare"):
                rows = _compared(rows, found, made)
    return rows


def _compared(
    rows: QuantizationReport | AnnotationReport, before: Model, after: Model
) -> QuantizationReport | AnnotationReport:
    from cede.quant.pt2e import AnnotationReport
    from cede.quant.source import compared, compared_programs

    if isinstance(rows, AnnotationReport):
        noise = compared_programs(before.export(), after.export(), before.args)
        return replace(rows, output_sqnr=noise)
    assert before.module is not None  # noqa: S101  (a program is refused)
    assert after.module is not None  # noqa: S101
    return compared(rows, before.module, after.module, before.args, before.kwargs)
