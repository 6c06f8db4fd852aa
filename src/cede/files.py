"""Writing a file whole or not at all, and reading a text."""

from __future__ import annotations

import os
import re
import secrets
import stat
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from cede.errors import ConfigError, LoweringError

if TYPE_CHECKING:
    from importlib.resources.abc import Traversable

STANDARD = {"/dev/stdout": 1, "/dev/stderr": 2}


def write_whole(path: Path, data: bytes) -> None:
    """Write beside the target, then rename over it.

    A link is followed and stays. A file that is there keeps its permissions; a new one gets those
    that the umask leaves. What is no regular file (a device, a pipe) can't be replaced: it is
    written to.

    Raises:
        LoweringError: the file can't be written; the target is as it was and nothing is left over.
    """
    path = Path(path)
    try:
        if is_special(path):
            _write_through(path, data)
        else:
            _replace(path.resolve(), data)
    except (OSError, RuntimeError) as error:  # RuntimeError: a loop of links, before Python 3.13
        reason = getattr(error, "strerror", None) or error
        raise LoweringError(f"{path}: can't be written: {reason}") from None


def read_text(file: Path | Traversable) -> str:
    """A UTF-8 text. Raises ConfigError, naming the file, where it can't be read."""
    try:
        return file.read_text(encoding="utf-8")
    except OSError as error:
        raise ConfigError(f"{file}: can't be read: {error.strerror or error}") from None
    except UnicodeDecodeError as error:
        raise ConfigError(f"{file}: not UTF-8 at byte {error.start}") from None


def is_special(path: Path) -> bool:
    """Whether a path is there and can't be replaced: a device, a pipe, a standard stream."""
    if _descriptor(path) is not None:
        return True
    try:
        mode = path.stat().st_mode
    except OSError:
        return False
    return not (stat.S_ISREG(mode) or stat.S_ISDIR(mode))


def _descriptor(path: Path) -> int | None:
    """Which open file of this process a path stands for, even where that is a regular file."""
    name = os.path.abspath(path)
    found = re.fullmatch(r"(?:/dev/fd|/proc/self/fd)/(\d+)", name)
    return int(found[1]) if found else STANDARD.get(name)


def _write_through(path: Path, data: bytes) -> None:
    number = _descriptor(path)
    if number is None:
        path.write_bytes(data)
        return
    # opening it anew would start at the file's begin, over what was printed before
    sys.stdout.flush()
    with os.fdopen(os.dup(number), "wb") as file:
        file.write(data)


def _replace(path: Path, data: bytes) -> None:
    if path.is_dir():
        raise IsADirectoryError(None, "Is a directory")
    beside = path.with_name(f".cede-{secrets.token_hex(8)}")
    # the system takes the umask off
    handle = os.open(
        beside, os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_BINARY", 0), 0o666
    )
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(data)
        if path.exists():
            beside.chmod(stat.S_IMODE(path.stat().st_mode))
        beside.replace(path)
    except BaseException:
        beside.unlink(missing_ok=True)
        raise
