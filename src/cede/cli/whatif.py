"""`cede whatif`."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from cede.cli import options
from cede.cli.planning import asked

if TYPE_CHECKING:
    from pathlib import Path

    from cede.whatif import Asked, Comparison


@click.command(short_help="Tell how a plan would change with other backends.")
@options.model
@options.overrides
@click.option(
    "--support",
    multiple=True,
    metavar="OP[@BACKEND]",
    help="Suppose that the backend (default: the first) supports the operator; repeatable.",
)
@click.option(
    "--without", multiple=True, metavar="BACKEND", help="Suppose it is not there; repeatable."
)
@options.configured
@options.form("text", "json")
@options.output("Write to this file instead of printing.")
@options.quiet
def whatif(
    model: str,
    overrides: tuple[str, ...],
    support: tuple[str, ...],
    without: tuple[str, ...],
    config: str | None,
    backends: tuple[str, ...],
    form: str,
    output: Path | None,
    quiet: bool,
) -> None:
    """Tell how many delegates MODEL would have, and how much of it they would cover.

    OP is an operator such as aten.native_group_norm; "*" matches any part. Without --support and
    --without all operators whose support would merge delegates are ranked. Nothing is compiled,
    and nobody knows whether the backend would compile what is supposed.
    """
    from cede.whatif import comparison_json, ranked, ranking_text

    options.writable(output)
    found = asked(model, options.costed(options.load(config, backends, overrides)), quiet)
    if support or without:
        comparison = _compared(found, support, without)
        text = comparison_json(comparison) if form == "json" else f"{comparison}\n"
    else:
        ranks = ranked(found)
        text = (
            comparison_json(None, ranks)
            if form == "json"
            else ranking_text(ranks, width=options.width_for(output))
        )
        text = text or "no operator would merge delegates if it were supported\n"
    options.give(text, output)


def _compared(found: Asked, support: tuple[str, ...], without: tuple[str, ...]) -> Comparison:
    from cede.whatif import what_if

    first = next(iter(found.backends.values()))
    pairs = []
    for text in support:
        op, _, backend = text.partition("@")
        pairs.append((op, backend or first))
    return what_if(found, support=pairs, without=without)
