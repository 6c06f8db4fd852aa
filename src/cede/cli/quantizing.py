"""`cede quantize`."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from cede.cli import options
from cede.cli.steps import Steps
from cede.errors import ConfigError

if TYPE_CHECKING:
    from pathlib import Path

    from cede.config import Config
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
    if strict and rows.left:
        raise PolicyError("strict: " + "; ".join(f"{row.module}: {row.note}" for row in rows.left))


def _rows(model: str, config: Config, compare: bool, quiet: bool) -> QuantizationReport:
    from cede.model import load_model

    with Steps(2 + compare, quiet) as steps:
        with steps.step("load"):
            found = load_model(model)
        with steps.step("quantize"):
            made = found.quantized(config.quantize)
        rows = made.quantization
        assert rows is not None  # noqa: S101  (the config asks for it)
        if compare:
            with steps.step("compare"):
                from cede.quant.source import compared

                assert found.module is not None  # noqa: S101  (a program is refused)
                assert made.module is not None  # noqa: S101
                rows = compared(rows, found.module, made.module, found.args, found.kwargs)
    return rows
