"""`cede cache`."""

from __future__ import annotations

import time

import click

from cede.cli import options
from cede.errors import LoweringError
from cede.store import PROGRAM, Store


@click.group(short_help="Show or clear what lowering keeps.")
def cache() -> None:
    """Show or clear the programs and delegates that are kept from one lowering to the next."""


@cache.command()
@options.overrides
@options.configured
def info(overrides: tuple[str, ...], config: str | None, backends: tuple[str, ...]) -> None:
    """Print the folder, how many programs and delegates it has, their bytes and the bound."""
    store = _store(overrides, config, backends)
    entries = store.entries()
    used = sum(size for _, size, _ in entries)
    click.echo(f"folder: {store.folder}")
    programs = sum(path.name.startswith(PROGRAM) for path, _, _ in entries)
    click.echo(f"programs: {programs}")
    click.echo(f"delegates: {len(entries) - programs}")
    click.echo(f"bytes: {used:,} of at most {store.most:,}")
    if entries:
        days = (time.time() - entries[0][2]) / 86400
        click.echo(f"used longest ago: {days:.1f} days")


@cache.command()
@options.overrides
@options.configured
def clear(overrides: tuple[str, ...], config: str | None, backends: tuple[str, ...]) -> None:
    """Remove them all."""
    store = _store(overrides, config, backends)
    count, size = store.clear()
    if store.warnings:
        raise LoweringError("; ".join(store.warnings))
    click.echo(f"removed {count} entries ({size:,} bytes) from {store.folder}")


def _store(overrides: tuple[str, ...], config: str | None, backends: tuple[str, ...]) -> Store:
    loaded = options.load(config, backends, overrides).lowering
    return Store.at(loaded.cache_folder, loaded.cache_bytes)
