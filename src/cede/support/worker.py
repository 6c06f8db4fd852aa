"""A child process that does jobs one by one; when it dies or hangs, the next job has a new one."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import tempfile
import threading
import time
import warnings
from multiprocessing import Pipe
from multiprocessing.connection import Connection
from typing import IO, TYPE_CHECKING, Any

from cede.errors import CedeError

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import TracebackType

STARTING = 600.0
"""Seconds that a child may take to import everything."""

_TOLD = re.compile(r"[IVW]\d{4} \d\d:\d\d:")
"""A line of torch's log that is no error: nothing dies of it."""


class JobError(CedeError):
    """A job raised; has what cede said, or the first line of what anything else did."""


class Crashed(CedeError):
    """The child process died over a job."""


class TimedOut(CedeError):
    """A job took too long; its process was killed."""


class Worker:
    """One child process at a time. A context manager, which ends it."""

    def __init__(self) -> None:
        self._process: subprocess.Popen[bytes] | None = None
        self._ended = False
        self._pipe: Connection | None = None
        self._log: IO[bytes] | None = None

    def __enter__(self) -> Worker:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.stop()

    def ask(self, job: Callable[..., Any], *args: Any, seconds: float) -> Any:
        """What `job(*args)` returns in the child.

        Args:
            job: a function of a module; it, `args` and its result are pickled.
            args: its arguments.
            seconds: how long it may take.

        Raises:
            JobError: it raised.
            Crashed: the process died.
            TimedOut: it took too long.
        """
        pipe = self._pipe or self._start()
        try:
            pipe.send((job, args))
            if not pipe.poll(seconds):
                self.stop()
                raise TimedOut(f"it took longer than {seconds:g} s")
            done, value = pipe.recv()
        except (EOFError, ConnectionError):
            raise Crashed(self._died()) from None
        if not done:
            raise JobError(value)
        return value

    def end(self) -> None:
        """From another thread: kill the child, so that what waits for it raises Crashed."""
        self._ended = True
        if self._process is not None:
            self._process.kill()

    def _start(self) -> Connection:
        # multiprocessing's own start would run the caller's script again, guarded or not
        mine, other = Pipe()
        fd = other.fileno()
        self._log = tempfile.TemporaryFile()
        self._process = subprocess.Popen(
            [
                sys.executable,
                "-c",
                f"from cede.support.worker import serve; serve{fd, os.getpid()}",
            ],
            env={**os.environ, "PYTHONPATH": os.pathsep.join(path for path in sys.path if path)},
            pass_fds=[fd],
            stdin=subprocess.DEVNULL,
            stdout=self._log,
            stderr=self._log,
        )
        other.close()
        self._pipe = mine
        if self._ended:
            self._process.kill()
        try:
            if not mine.poll(STARTING):
                self.stop()
                raise TimedOut(f"a child process took longer than {STARTING:g} s to start")
            mine.recv()
        except (EOFError, ConnectionError):
            raise Crashed(self._died()) from None
        return mine

    def _died(self) -> str:
        assert self._process is not None  # noqa: S101  (it was started)
        code = self._process.wait()
        how = f"exit code {code}" if code >= 0 else signal.Signals(-code).name
        said = self._last_line()
        self.stop()
        return f"{how}: {said}" if said else how

    def _last_line(self) -> str:
        assert self._log is not None  # noqa: S101  (made with the process)
        self._log.seek(0)
        text = self._log.read().decode(errors="replace")
        lines = [line.strip() for line in text.splitlines()]
        lines = [line for line in lines if line and not _TOLD.match(line)]
        return lines[-1][:200] if lines else ""

    def stop(self) -> None:
        """End the child; the next job has a new one."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()
        for opened in (self._pipe, self._log):
            if opened is not None:
                opened.close()
        self._process = self._pipe = self._log = None


def serve(fd: int, parent: int) -> None:
    """The child: jobs in, `(True, result)` or `(False, error)` out. It ends with its parent."""
    warnings.simplefilter("ignore")
    threading.Thread(target=_follow, args=(parent,), daemon=True).start()
    pipe: Connection = Connection(fd)
    import torch

    torch.set_num_threads(1)
    pipe.send("ready")
    while True:
        try:
            job, args = pipe.recv()
        except EOFError:
            return
        try:
            answer = True, job(*args)
        except Exception as error:
            answer = False, _said(error)
        pipe.send(answer)


def _follow(parent: int) -> None:
    """End this process when another is its parent: one that was killed can't end it."""
    while os.getppid() == parent:
        time.sleep(1)
    os._exit(1)


def _said(error: BaseException) -> str:
    lines = [line.strip() for line in str(error).strip().splitlines()]
    if isinstance(error, CedeError):  # its later lines name the ops
        return " ".join(lines)[:300]
    return f"{type(error).__name__}: {(lines or [''])[0][:300]}"
