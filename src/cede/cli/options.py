"""Arguments and options that commands share."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from cede.errors import ConfigError

if TYPE_CHECKING:
    from cede.config import Config
    from cede.host import Host

TITLE = re.compile(r"^([^\x1b\n]+)$(?=\n[^\n]+\n-{2,}[ -]*$)", re.MULTILINE)
"""A line above a table's header, which has a rule of dashes below it."""

F = TypeVar("F", bound=Callable[..., Any])

model = click.argument("model")
overrides = click.argument("overrides", nargs=-1, metavar="[KEY=VALUE]...")
quiet = click.option("--quiet", "-q", is_flag=True, help="Print nothing but results and errors.")
strict = click.option(
    "--strict", is_flag=True, help="Exit 4 if an op is left, a plugin failed or there is a warning."
)
program = click.option(
    "--output", "-o", required=True, type=click.Path(path_type=Path), help="The .pte to write."
)
external_weights = click.option(
    "--external-weights", type=click.Path(path_type=Path), metavar="FILE",
    help="Write the constants to this data file (.ptd), beside the program.",
)  # fmt: skip
weights = click.option(
    "--external-weights", "weights", type=click.Path(path_type=Path), metavar="FILE",
    help="The data file (.ptd) of the program, if it has one.",
)  # fmt: skip

weights_files = click.option(
    "--external-weights", "weights", type=click.Path(path_type=Path), metavar="FILE", multiple=True,
    help="A data file (.ptd) of the program, if it has any; repeatable.",
)  # fmt: skip


def weights_of(output: Path, asked: Path | None, config: Config) -> Path | None:
    """Where the constants of a program go, None where they stay in it."""
    if asked is None and config.lowering.external_weights:
        return output.with_suffix(".ptd")
    return asked


def outside(overrides: tuple[str, ...], asked: Path | None) -> tuple[str, ...]:
    """The overrides, with the one that --external-weights stands for."""
    return overrides if asked is None else (*overrides, "lowering.external_weights=true")


def configured(function: F) -> F:
    """Add --config and --backend."""
    function = click.option(
        "--backend", "-b", "backends", multiple=True, metavar="NAME",
        help="A backend, repeatable, in priority order: short for backends=[...].",
    )(function)  # fmt: skip
    return click.option(
        "--config", "-c", "config", metavar="FILE|NAME",
        help="A YAML file, or the name of a ready config (default: default).",
    )(function)  # fmt: skip


def form(*choices: str) -> Callable[[F], F]:
    """Add --format; the first choice is the default."""
    return click.option(
        "--format", "-f", "form", type=click.Choice(choices), default=choices[0],
        show_default=True, help="The form of what is printed or written.",
    )  # fmt: skip


level = click.option(
    "--level",
    type=click.Choice(["claim", "lower", "run"]),
    default="run",
    show_default=True,
    help="How far to go; a backend that can't go so far here goes as far as it can.",
)


def seconds(default: float, help: str) -> Callable[[F], F]:
    """Add --seconds, a time limit."""
    return click.option(
        "--seconds", type=click.FloatRange(min=0, min_open=True), default=default,
        show_default=True, help=help,
    )  # fmt: skip


def output(help: str) -> Callable[[F], F]:
    """Add --output for a file to write instead of printing."""
    return click.option("--output", "-o", type=click.Path(path_type=Path), help=help)


def load(
    config: str | None, backends: tuple[str, ...], overrides: tuple[str, ...], strict: bool = False
) -> Config:
    """The config that the shared options ask for."""
    from cede.config import load_config

    asked = list(overrides)
    if backends:
        if any(text.partition("=")[0] == "backends" for text in overrides):
            raise ConfigError("give either --backend or backends=[...]")
        asked.append(f"backends={json.dumps(list(backends))}")
    if strict:
        asked.append("strict=true")
    try:
        return load_config(config, asked)
    except ConfigError as error:
        from cede.host.problems import with_names

        raise with_names(error) from None


def backends_named(config: str | None, backends: tuple[str, ...], given: Config) -> bool:
    """Whether somebody asked for these backends; those of the default config are nobody's."""
    return config is not None or bool(backends) or "backends" in given.origins


def probed(
    config: str | None, backends: tuple[str, ...], overrides: tuple[str, ...]
) -> tuple[Host, Config]:
    """The host, and the config with every backend where nobody named any.

    Raises:
        ConfigError: as `load`, or a backend that nobody brings.
        PluginError: a plugin that the config asks for failed.
    """
    from dataclasses import replace

    from cede.host import Host

    given = load(config, backends, overrides)
    host = Host.load(given)
    if not backends_named(config, backends, given):
        given = replace(given, backends=sorted(host.backends))
    for name in given.backends:
        host.backend(name)
    return host, given


def costed(config: Config) -> Config:
    """That config with the default costs if it has none, so that there are predictions."""
    from dataclasses import replace

    from cede.config import ROOFLINE

    return config if config.costs or config.settle == "cost" else replace(config, costs=ROOFLINE)


def writable(*paths: Path | None) -> None:
    """Find out that a file can't be written before the long work, not after.

    Raises:
        ConfigError: its folder is missing, it is a folder itself, or two outputs are one file.
    """
    from cede.files import is_special

    seen: dict[Path, Path] = {}
    for path in filter(None, paths):
        if path.is_dir():
            raise ConfigError(f"{path}: is a folder; give a file to write")
        if not path.parent.is_dir():
            raise ConfigError(f"{path}: the folder {path.parent} does not exist")
        if is_special(path):
            continue
        target = _target(path)
        if not target.parent.is_dir():
            raise ConfigError(f"{path}: links to {target}, whose folder does not exist")
        if target in seen:
            same = f"{path} and {seen[target]}" if path != seen[target] else f"{path}"
            raise ConfigError(f"{same}: two outputs to one file; give each a file of its own")
        seen[target] = path


def _target(path: Path) -> Path:
    try:
        return path.resolve()
    except (OSError, RuntimeError):  # RuntimeError: before Python 3.13
        raise ConfigError(f"{path}: a loop of links") from None


def give(text: str, path: Path | None) -> None:
    """Print a text, tables with bold titles on a terminal, or write it to a file, whole or not."""
    if path is None:
        click.echo(with_bold_titles(text), nl=False)
        return
    from cede.files import write_whole

    write_whole(path, text.encode())


def with_bold_titles(text: str) -> str:
    """The text as it is printed; on a terminal the titles of its tables are bold."""
    return TITLE.sub("\x1b[1m\\1\x1b[0m", text) if rich() else text


def width_for(output: Path | None) -> int | None:
    """Columns of the terminal where a text goes there, None where it goes to a file."""
    return width() if output is None else None


def width() -> int | None:
    """Columns of the terminal, None where output goes elsewhere."""
    import shutil
    import sys

    return shutil.get_terminal_size().columns if sys.stdout.isatty() else None


def rich() -> bool:
    """Whether stdout takes bold and colour: a terminal, unless NO_COLOR is set (no-color.org)."""
    import os
    import sys

    plain = os.environ.get("NO_COLOR") or os.environ.get("TERM") == "dumb"
    return sys.stdout.isatty() and not plain
