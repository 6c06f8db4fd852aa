"""Writing a file whole or not at all, and reading a text."""

from __future__ import annotations

import hashlib
import os
import re
import secrets
import signal
import stat
import sys
import threading
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from cede.errors import ConfigError, LoweringError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence
    from importlib.resources.abc import Traversable

_PIECE = 1 << 24
"""Bytes that are read at a time, or written between two looks for Ctrl-C."""

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
    if not is_special(path):
        write_together({path: data})
        return
    with _told(path):
        _write_through(path, data)


@contextmanager
def _told(path: Path) -> Iterator[None]:
    try:
        yield
    except (OSError, RuntimeError) as error:  # RuntimeError: a loop of links, before Python 3.13
        reason = getattr(error, "strerror", None) or error
        raise LoweringError(f"{path}: can't be written: {reason}") from None


def write_together(files: Mapping[Path, bytes]) -> None:
    """Write several files, all of them or none, each as `write_whole` does.

    All are written beside their targets before the first is renamed. Only a crash between two
    renames leaves some new and some old; Ctrl-C is held back while they are done.

    Raises:
        LoweringError: a file can't be written; the targets are as they were.
    """
    whole = [(Path(path), data) for path, data in files.items()]
    special = [(path, data) for path, data in whole if is_special(path)]
    with ExitStack() as undo:
        renames = []
        with _held() as heed:
            for path, data in whole:
                if not is_special(path):
                    with _told(path):
                        beside = _beside(path.resolve(), data, heed)
                    undo.callback(beside.unlink, missing_ok=True)
                    renames.append((path, beside))
        for path, data in special:  # may wait for a reader
            write_whole(path, data)
        with _held():
            _rename(renames, undo)
            undo.close()


def _rename(renames: Sequence[tuple[Path, Path]], undo: ExitStack) -> None:
    """Put each file in its place; where one can't be, those before it are put back."""
    with ExitStack() as back:
        for path, beside in renames:
            target = path.resolve()
            with _told(path):
                if len(renames) > 1 and target.is_file():
                    old = target.with_name(f".cede-{secrets.token_hex(8)}")
                    os.link(target, old)
                    undo.callback(old.unlink, missing_ok=True)
                    beside.replace(target)
                    back.callback(old.replace, target)
                else:
                    beside.replace(target)
                    back.callback(target.unlink, missing_ok=True)
        back.pop_all()


@contextmanager
def _held() -> Iterator[Callable[[], None]]:
    """Hold Ctrl-C back to the end, but where what this gives is called.

    Python's handler could raise between any two steps, and leave one of two files behind. On
    another thread than the main one nothing is held, or needed: handlers run on that alone.
    """
    pending: list[int] = []
    if threading.current_thread() is not threading.main_thread():
        yield lambda: None
        return

    def heed() -> None:
        if pending:
            pending.clear()
            signal.signal(signal.SIGINT, before)
            signal.raise_signal(signal.SIGINT)
            signal.signal(signal.SIGINT, hold)

    def hold(number: int, frame: object) -> None:
        pending.append(number)

    before = signal.getsignal(signal.SIGINT)
    if before is None:  # not set by Python, nor to be set back
        yield lambda: None
        return
    signal.signal(signal.SIGINT, hold)
    try:
        yield heed
    finally:
        signal.signal(signal.SIGINT, before)
        if pending:
            signal.raise_signal(signal.SIGINT)


def sha256_of(path: Path) -> str:
    """Of a file's bytes, read a part at a time. Raises OSError where it can't be read."""
    found = hashlib.sha256()
    with path.open("rb") as opened:
        while part := opened.read(_PIECE):
            found.update(part)
    return found.hexdigest()


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


def _beside(path: Path, data: bytes, heed: Callable[[], None]) -> Path:
    """Write a file beside another, to be renamed; nothing is left where that fails."""
    if path.is_dir():
        raise IsADirectoryError(None, "Is a directory")
    beside = path.with_name(f".cede-{secrets.token_hex(8)}")
    # the system takes the umask off
    handle = os.open(
        beside, os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_BINARY", 0), 0o666
    )
    try:
        with os.fdopen(handle, "wb") as file:
            for start in range(0, len(data), _PIECE):
                heed()
                file.write(memoryview(data)[start : start + _PIECE])
        heed()
        if path.exists():
            beside.chmod(stat.S_IMODE(path.stat().st_mode))
    except BaseException:
        beside.unlink(missing_ok=True)
        raise
    return beside
