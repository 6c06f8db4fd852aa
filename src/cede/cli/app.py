"""The group of commands: errors become messages and exit codes, plugins may add commands."""

from __future__ import annotations

import logging
import os
import warnings
from typing import Any

import click

from cede.errors import CedeError, LoweringError
from cede.lacking import lack

TORCH_LOGS = (
    "torch._subclasses.fake_tensor",
    "torch.export.pt2_archive._package",
    "torch._export.serde.serialize",
    "torch.fx.experimental.symbolic_shapes",
)
"""Loggers that tell a traceback of what torch raises, too."""


class CommandLine(click.Group):
    """A click group that tells errors as `error: ...` and has the commands of plugins."""

    def __init__(self, *args: Any, **settings: Any) -> None:
        settings.setdefault("context_settings", {"max_content_width": 100})
        super().__init__(*args, **settings)
        self.params.append(_version_option())
        self._plugins_asked = False

    def invoke(self, ctx: click.Context) -> Any:
        """Run a command. With CEDE_DEBUG=1 an error keeps its traceback."""
        if not os.environ.get("CEDE_DEBUG"):
            _hush()
        try:
            return super().invoke(ctx)
        except CedeError as error:
            _tell(str(error))
            ctx.exit(error.exit_code)
        except KeyboardInterrupt:
            click.echo("interrupted", err=True)
            ctx.exit(130)
        except (click.ClickException, click.exceptions.Exit, click.Abort, BrokenPipeError):
            raise
        except Exception as error:
            if lacking := lack(error):
                _tell(lacking)
                ctx.exit(LoweringError.exit_code)
            _tell(
                f"unexpected {type(error).__name__}: {error}\n"
                "This is a fault of cede or of what it called; CEDE_DEBUG=1 shows where."
            )
            ctx.exit(1)

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Names of cede's own commands in order of use, then those of plugins."""
        self._ask_plugins()
        return list(self.commands)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """The command of that name; plugins are loaded only for one that is not cede's own."""
        if cmd_name not in self.commands:
            self._ask_plugins()
        return super().get_command(ctx, cmd_name)

    def _ask_plugins(self) -> None:
        if self._plugins_asked:
            return
        self._plugins_asked = True
        from cede.host import Host

        try:
            Host.load().commands(self)
        except CedeError as error:
            click.echo(f"warning: commands of plugins are left out: {error}", err=True)


def _tell(message: str) -> None:
    """Print the message of the error that is being handled, or raise it on."""
    if os.environ.get("CEDE_DEBUG", "") not in ("", "0"):
        raise
    click.echo(f"error: {message}", err=True)


def _version_option() -> click.Parameter:
    def show(ctx: click.Context, option: click.Parameter, value: bool) -> None:
        if not value or ctx.resilient_parsing:
            return
        from importlib.metadata import PackageNotFoundError, version

        try:
            click.echo(f"cede {version('cede')}")
        except PackageNotFoundError:
            click.echo("cede (not installed: run from its sources)")
        ctx.exit()

    return click.Option(
        ["--version"],
        is_flag=True,
        expose_value=False,
        is_eager=True,
        callback=show,
        help="Show the version and exit.",
    )


def _hush() -> None:
    """Leave out what libraries say about themselves, and what the error that follows tells."""
    warnings.filterwarnings("ignore", category=DeprecationWarning)
    warnings.filterwarnings("ignore", category=FutureWarning)
    for name in ("torchao", "torch.utils._pytree"):
        logging.getLogger(name).setLevel(logging.ERROR)
    if not os.environ.get("TORCH_LOGS"):
        for name in TORCH_LOGS:
            # importing torch sets their levels anew
            logging.getLogger(name).addFilter(_nothing)


def _nothing(_: logging.LogRecord) -> bool:
    return False
