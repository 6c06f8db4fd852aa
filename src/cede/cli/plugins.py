"""`cede plugins`."""

from __future__ import annotations

import json
from dataclasses import MISSING, asdict, fields, is_dataclass
from typing import TYPE_CHECKING, Any

import click

from cede.cli import options
from cede.errors import PluginError

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from cede.host import Host
    from cede.reporting.tables import Table
    from cede.types import Backend

KINDS = ("backend", "partitioner", "quantizer", "encoding")


@click.command(short_help="List plugins, what they bring and what works here.")
@options.overrides
@options.configured
@options.form("text", "markdown", "json")
@options.output("Write to this file instead of printing.")
@click.option("--verbose", "-v", is_flag=True, help="Add backend options and failures' traces.")
@click.option("--strict", is_flag=True, help="Exit 3 if a plugin failed or names clash.")
def plugins(
    overrides: tuple[str, ...],
    config: str | None,
    backends: tuple[str, ...],
    form: str,
    output: Path | None,
    verbose: bool,
    strict: bool,
) -> None:
    """List plugins, what they bring, and for each backend what can be done here.

    Plugins that failed are listed with the reason, clashing names with the distributions.
    """
    from cede.host import Host

    options.writable(output)
    host = Host.load(options.load(config, backends, overrides))
    if form == "json":
        text = json.dumps(_data(host), indent=1, ensure_ascii=False) + "\n"
    else:
        text = _text(host, form, verbose)
    options.give(text, output)
    if strict and (host.failures or host.conflicts):
        raise PluginError("\n".join(f"strict: {one}" for one in (*host.failures, *host.conflicts)))


def _text(host: Host, form: str, verbose: bool) -> str:
    from cede.reporting.tables import as_markdown, as_text

    parts = [
        as_markdown(table) if form == "markdown" else as_text(table, options.width())
        for table in _tables(host, verbose)
        if table.rows
    ]
    if host.conflicts:
        parts.append("\n".join(["Conflicts", *(f"- {one}" for one in host.conflicts)]))
    if verbose:
        parts += [f"{failure}\n{failure.trace}".rstrip() for failure in host.failures]
    return "\n\n".join(parts) + "\n"


def _tables(host: Host, verbose: bool) -> Iterator[Table]:
    from cede.reporting.tables import Table

    yield Table(
        title="Plugins",
        header=("plugin", "distribution", "version", "hooks"),
        rows=[
            (one.name, one.distribution, one.version, ", ".join(one.hooks)) for one in host.plugins
        ],
    )
    yield Table(
        title="Records",
        header=("kind", "name", "distribution", "version"),
        rows=list(_records(host)),
        wraps=False,
    )
    yield Table(
        title="Backends",
        header=("backend", "id", "claim", "lower", "run"),
        rows=[
            (name, one.delegate_id, *(why or "yes" for why in _abilities(host, name).values()))
            for name, one in host.backends.items()
        ],
    )
    if verbose:
        yield Table(
            title="Options",
            header=("option", "type", "default"),
            rows=[row for one in host.backends.values() for row in _options(one)],
        )
    yield Table(
        title="Failed",
        header=("plugin", "distribution", "version", "when", "reason"),
        rows=[
            (one.plugin, one.distribution, one.version, one.stage, one.reason)
            for one in host.failures
        ],
    )


def _records(host: Host) -> Iterator[tuple[str, str, str, str]]:
    for kind in KINDS:
        for name in getattr(host, f"{kind}s"):
            source = host.source(kind, name)
            yield kind, name, source.distribution, source.version


def _abilities(host: Host, name: str) -> dict[str, str | None]:
    """Claim, lower and run: None, or why not."""
    found = host.availability(name)
    return {"claim": found.claim, "lower": found.lower, "run": found.run}


def _options(backend: Backend) -> Iterator[tuple[str, str, str]]:
    if not is_dataclass(backend.options):
        return
    for field in fields(backend.options):
        made = field.default_factory
        default = field.default if made is MISSING else made()
        shown = "(must be given)" if default is MISSING else repr(default)
        yield f"options.{backend.name}.{field.name}", str(field.type), shown


def _data(host: Host) -> dict[str, Any]:
    return {
        "schema": 1,
        "plugins": [asdict(one) for one in host.plugins],
        "records": [
            dict(zip(("kind", "name", "distribution", "version"), row, strict=True))
            for row in _records(host)
        ],
        "backends": [
            {"name": name, "id": one.delegate_id, **_abilities(host, name)}
            for name, one in host.backends.items()
        ],
        "failures": [asdict(one) for one in host.failures],
        "conflicts": [asdict(one) for one in host.conflicts],
    }
