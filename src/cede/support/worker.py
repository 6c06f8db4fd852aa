"""A child process that does jobs one by one; when it dies or hangs, the next job has a new one."""

from __future__ import annotations

import multiprocessing
import os
import signal
import tempfile
import warnings
from typing import TYPE_CHECKING, Any

from cede.errors import CedeError

if TYPE_CHECKING:
    from collections.abc import Callable
    from multiprocessing.connection import Connection
    from types import TracebackType

STARTING = 600.0
"""Seconds that a child may take to import everything."""


class JobError(CedeError):
    """A job raised; has what cede said, or the first line of what anything else did."""


class Crashed(CedeError):
    """The child process died over a job."""


class TimedOut(CedeError):
    """A job took too long; its process was killed."""


class Worker:
    """One child process at a time. A context manager, which ends it."""

    def __init__(self) -> None:
        self._process: Any = None
        self._pipe: Connection | None = None
        self._log = ""

    def __enter__(self) -> Worker:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._stop()

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
        pipe.send((job, args))
        try:
            if not pipe.poll(seconds):
                self._stop()
                raise TimedOut(f"it took longer than {seconds:g} s")
            done, value = pipe.recv()
        except (EOFError, ConnectionError):
            raise Crashed(self._died()) from None
        if not done:
            raise JobError(value)
        return value

    def _start(self) -> Connection:
        # a fork would share threads and locks that backends have made
        context = multiprocessing.get_context("spawn")
        mine, other = context.Pipe()
        fd, self._log = tempfile.mkstemp(prefix="cede-ops-")
        os.close(fd)
        self._process = context.Process(target=serve, args=(other, self._log), daemon=True)
        self._process.start()
        other.close()
        try:
            if not mine.poll(STARTING) or mine.recv() != "ready":
                self._stop()
                raise TimedOut(f"a child process took longer than {STARTING:g} s to start")
        except EOFError:
            raise Crashed(self._died()) from None
        self._pipe = mine
        return mine

    def _died(self) -> str:
        self._process.join()
        code = self._process.exitcode
        how = f"exit code {code}" if code >= 0 else signal.Signals(-code).name
        said = self._last_line()
        self._stop()
        return f"{how}: {said}" if said else how

    def _last_line(self) -> str:
        with open(self._log, errors="replace") as log:
            lines = [line.strip() for line in log if line.strip()]
        return lines[-1][:200] if lines else ""

    def _stop(self) -> None:
        if self._process is None:
            return
        self._process.kill()
        self._process.join()
        if self._pipe is not None:
            self._pipe.close()
        os.unlink(self._log)
        self._process, self._pipe = None, None


def serve(pipe: Connection, log: str) -> None:
    """The child: jobs in, `(True, result)` or `(False, error)` out."""
    warnings.simplefilter("ignore")
    with open(log, "wb", buffering=0) as file:  # native code prints past Python
        os.dup2(file.fileno(), 1)
        os.dup2(file.fileno(), 2)
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


def _said(error: BaseException) -> str:
    lines = [line.strip() for line in str(error).strip().splitlines()]
    if isinstance(error, CedeError):  # its later lines name the ops
        return " ".join(lines)[:300]
    return f"{type(error).__name__}: {(lines or [''])[0][:300]}"
