"""The child process: a job that raises, dies or hangs ends as an error, and the next job runs."""

from __future__ import annotations

import os
import signal
import time

import pytest

from cede.errors import LoweringError
from cede.support.worker import Crashed, JobError, TimedOut, Worker


def test_jobs_one_after_the_other() -> None:
    with Worker() as worker:
        assert worker.ask(divmod, 7, 2, seconds=60) == (3, 1)
        first = worker.ask(os.getpid, seconds=60)
        with pytest.raises(JobError, match="ZeroDivisionError: "):
            worker.ask(divmod, 7, 0, seconds=60)
        assert worker.ask(os.getpid, seconds=60) == first != os.getpid()
        with pytest.raises(Crashed, match="SIGSEGV"):
            worker.ask(signal.raise_signal, signal.SIGSEGV, seconds=60)
        with pytest.raises(TimedOut, match=r"longer than 0\.1 s"):
            worker.ask(time.sleep, 600, seconds=0.1)
        assert worker.ask(os.getpid, seconds=60) != first


def test_all_that_an_error_of_ours_says() -> None:
    with Worker() as worker, pytest.raises(JobError, match=r"^nobody takes it: an_op at m\.py:3$"):
        worker.ask(_refuse, seconds=60)


def _refuse() -> None:
    raise LoweringError("nobody takes it:\n  an_op at m.py:3")


def test_the_last_words_of_one_that_dies() -> None:
    with Worker() as worker:
        worker.ask(os.write, 2, b"no device\n", seconds=60)
        worker.ask(os.write, 2, b"W1130 21:42:22.99 7 torch/a.py:6] a type is known\n", seconds=60)
        with pytest.raises(Crashed, match=r"^exit code 7: no device$"):
            worker.ask(os._exit, 7, seconds=60)
