"""Compiling a delegate in a process of its own, with limits on its time and its memory.

The process is a fork: what a compiler is given, an edge program with fake values and notes of any
kind, can't be pickled whole, so that no new process could get it. What a fork lacks are the other
threads. torch's own pool (OpenMP) would wait for them, so that torch gets one thread, as in the
workers of its `DataLoader`. A compiler with a pool of its own (TBB) makes it in the child, for this
process never compiles. Elsewhere than on Linux system libraries don't outlive a fork, and what
`/proc` tells is missing.
"""

from __future__ import annotations

import ctypes
import gc
import io
import os
import pickle
import shutil
import signal
import sys
import tempfile
import time
import warnings
from dataclasses import dataclass
from multiprocessing import Pipe
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch

from cede.errors import ConfigError, LoweringError
from cede.lacking import lack
from cede.lowering.upstream import CompilerFailed, heads, texts
from cede.reporting.tables import quantity

if TYPE_CHECKING:
    from collections.abc import Callable
    from multiprocessing.connection import Connection
    from typing import NoReturn

    from executorch.exir.backend.backend_details import PreprocessResult
    from torch.export import ExportedProgram

    from cede.config import LoweringConfig

_LOOK = 0.02
"""Seconds between two looks at the memory of a child."""

_PR_SET_PDEATHSIG = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Apart:
    """Compiles each delegate in a process of its own.

    Attributes:
        seconds: how long one may take; None is no limit.
        most: bytes that one may take beyond what this process has; None is no limit.
        said: gets which backends it can't hold.
    """

    seconds: float | None
    most: int | None
    said: list[str]

    @classmethod
    def of(cls, config: LoweringConfig, said: list[str]) -> Apart | None:
        """As a config says, None where it has no limit.

        Raises:
            ConfigError: it has, and this is not Linux.
        """
        if config.compile_seconds is None and config.compile_bytes is None:
            return None
        if sys.platform != "linux":
            raise ConfigError(
                "lowering.compile_seconds and lowering.compile_bytes need Linux; leave them out"
            )
        return cls(seconds=config.compile_seconds, most=config.compile_bytes, said=said)

    def unheld(self, whom: str) -> None:
        """Say that the limits don't hold for something."""
        text = f"lowering.compile_seconds and lowering.compile_bytes don't hold for {whom}"
        if text not in self.said:
            self.said.append(text)

    def __call__(
        self, program: ExportedProgram, work: Callable[[], PreprocessResult]
    ) -> PreprocessResult:
        """What `work` makes, made in a child.

        Args:
            program: what is compiled, for errors.
            work: compiles it.

        Raises:
            CompilerFailed: it raised, died, or exceeded a limit.
            LoweringError: the disk is full.
        """
        folder = tempfile.mkdtemp(prefix="cede-")
        ours, theirs = Pipe(duplex=False)
        before = _anonymous(os.getpid())
        child = 0
        try:
            child = _fork()
            if not child:
                _serve(theirs, work, folder)
            theirs.close()
            given = self._wait(ours, child, before)
        finally:
            status = _end(child) if child else 0
            ours.close()
            theirs.close()
            shutil.rmtree(folder, ignore_errors=True)
        if isinstance(given, str):
            raise CompilerFailed(given or _died(status), program)
        return _made(given, program)

    def _wait(self, pipe: Connection, child: int, before: int) -> bytes | str:
        """What the child sends; or which limit it exceeded, "" for a child that died."""
        end = None if self.seconds is None else time.monotonic() + self.seconds
        while True:
            left = None if end is None else end - time.monotonic()
            if left is not None and left <= 0:
                return f"compiling took longer than {self.seconds:g} s (lowering.compile_seconds)"
            if self.most is not None and _anonymous(child) - before > self.most:
                most = quantity(self.most, "B")
                return f"compiling took more than {most} of memory (lowering.compile_bytes)"
            look = left if self.most is None else min(_LOOK, left or _LOOK)
            try:
                if pipe.poll(look):
                    return pipe.recv_bytes()
            except (EOFError, OSError):
                return ""


def _fork() -> int:
    for stream in (sys.stdout, sys.stderr):
        stream.flush()
    with warnings.catch_warnings():
        # Python warns of the threads that a fork lacks; see above
        warnings.filterwarnings("ignore", category=DeprecationWarning, message=".*fork")
        return os.fork()


def _serve(pipe: Connection, work: Callable[[], PreprocessResult], folder: str) -> NoReturn:
    """The child: compile, send what came out, end."""
    try:
        _settle_down(folder)
        answer = _answer(work)
        for stream in (sys.stdout, sys.stderr):
            stream.flush()
        pipe.send_bytes(answer)
    finally:
        os._exit(0)


def _settle_down(folder: str) -> None:
    """Leave the terminal's group, die with the parent, and lie where the parent cleans up."""
    import resource  # not there on Windows

    os.setpgid(0, 0)
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    tempfile.tempdir = os.environ["TMPDIR"] = folder
    torch.set_num_threads(1)
    gc.freeze()  # what the parent threw away is not the child's to finish
    try:  # if the system runs out of memory, it should be this one that goes
        Path("/proc/self/oom_score_adj").write_text("1000")
    except OSError:
        pass


def _answer(work: Callable[[], PreprocessResult]) -> bytes:
    """Pickled: what was made, or "lack" and the lack, or "failed", the heads, and all texts."""
    try:
        made = work()
        sent = io.BytesIO()
        _Pickler(sent, protocol=5).dump(("made", made))
        return sent.getvalue()
    except MemoryError as error:
        return pickle.dumps(("failed", heads(error), texts(error)))
    except BaseException as error:
        if lacking := lack(error):
            return pickle.dumps(("lack", lacking))
        return pickle.dumps(("failed", heads(error), texts(error)))


class _Pickler(pickle.Pickler):
    """Writes views of memory as bytes."""

    def reducer_override(self, given: Any) -> Any:
        return (bytes, (bytes(given),)) if isinstance(given, memoryview) else NotImplemented


def _made(given: bytes, program: ExportedProgram) -> PreprocessResult:
    kind, *what = pickle.loads(given)
    if kind == "lack":
        raise LoweringError(f"could not lower the program: {what[0]}")
    if kind == "failed":
        raise CompilerFailed(what[0], program, what[1])
    made: PreprocessResult = what[0]
    return made


def _end(child: int) -> int:
    """End a child, all that it started, and wait for it; its exit status."""
    for kill in (os.killpg, os.kill):  # it may not have got its group yet
        try:
            kill(child, signal.SIGKILL)
        except (ProcessLookupError, PermissionError):
            pass
    return os.waitpid(child, 0)[1]


def _died(status: int) -> str:
    code = os.waitstatus_to_exitcode(status)
    how = f"exit code {code}" if code >= 0 else signal.Signals(-code).name
    return f"the process that compiled it died: {how}"


def _anonymous(pid: int) -> int:
    """Bytes of memory of a process that no file stands behind; 0 for one that has ended."""
    try:
        text = Path(f"/proc/{pid}/status").read_text()
    except OSError:
        return 0
    lines = [line.split() for line in text.splitlines() if line.startswith("RssAnon:")]
    return int(lines[0][1]) * 1024 if lines else 0
