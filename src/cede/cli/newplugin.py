"""`cede new-plugin`."""

from __future__ import annotations

from pathlib import Path

import click


@click.command(name="new-plugin", short_help="Write a plugin that works, to start from.")
@click.argument("name")
@click.option(
    "--into",
    type=click.Path(path_type=Path),
    metavar="FOLDER",
    help="The folder to write, new or empty (default: the distribution's name).",
)
def new_plugin(name: str, into: Path | None) -> None:
    """Write a distribution with a partitioner, a backend that runs here, and tests.

    NAME is the backend's name; the distribution is cede-NAME.
    """
    from cede.host import Host
    from cede.kit import insist_free, names_for, write_plugin

    names = names_for(name)
    insist_free(names, Host.load())
    folder = into if into is not None else Path(names.distribution)
    for path in write_plugin(names, folder):
        click.echo(folder / path)
    click.echo(f"\nnext: pip install -e '{folder}[test]' && python -m pytest {folder}", err=True)
