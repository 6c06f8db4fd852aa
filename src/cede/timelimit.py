"""A limit on how long foreign code may run."""

from __future__ import annotations

import signal
import threading
import time
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from types import FrameType, TracebackType

AGAIN = 0.05
"""Seconds between further interrupts, for code that swallows the first."""


class Expired(BaseException):
    """Raised inside the body; `time_limit` turns its own into TimeoutError on the way out.

    No subclass of Exception, so that an `except Exception` of the body does not eat it. Code that
    catches BaseException must let it pass: what it sees belongs to a limit further out.
    """

    def __init__(self, limit: time_limit) -> None:
        super().__init__(f"took longer than {limit.seconds:g} s")
        self.limit = limit


class time_limit:
    """Context manager that raises TimeoutError when its body takes too long.

    On the main thread of a POSIX system the body is interrupted (SIGALRM, real time) as soon as
    the interpreter runs Python code again: a call into native code that never returns is not.
    On any other thread or system nothing is interrupted: the time is measured, and TimeoutError
    is raised after the body has ended by itself.

    Limits nest, also inside another user of SIGALRM: whichever time is over first acts first, and
    on exit the former handler and the rest of its time are restored.

    Args:
        seconds: how long the body may take, above 0.

    Attributes:
        expired: whether the time was over before the body ended.

    Raises:
        ValueError: seconds is not above 0.
        TimeoutError: the body took longer. The error that the body raised late, if any, is its
            cause.
    """

    def __init__(self, seconds: float) -> None:
        if not seconds > 0:
            raise ValueError(f"a time limit must be above 0 seconds, not {seconds}")
        self.seconds = seconds
        self.expired = False
        self._former: Any = None
        self._outer: float | None = None
        self._outer_again = 0.0

    def __enter__(self) -> time_limit:
        now = time.monotonic()
        self._deadline = now + self.seconds
        self._alarm = _can_interrupt()
        if self._alarm:
            self._former = signal.signal(signal.SIGALRM, self._ring)
            left, self._outer_again = signal.getitimer(signal.ITIMER_REAL)
            self._outer = now + left if left else None
            self._set()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._alarm:
            self._restore()
        elif error is None:
            self.expired = time.monotonic() > self._deadline
        foreign = isinstance(error, Expired) and error.limit is not self
        if not self.expired or foreign or isinstance(error, KeyboardInterrupt):
            return
        late = None if isinstance(error, Expired) else error
        timeout = TimeoutError(f"took longer than {self.seconds:g} s")
        # where it hung is what a reader of the traceback needs
        raise timeout.with_traceback(trace) from late

    def _set(self) -> None:
        first = self._deadline if self._outer is None else min(self._deadline, self._outer)
        signal.setitimer(signal.ITIMER_REAL, max(first - time.monotonic(), 1e-6), AGAIN)

    def _restore(self) -> None:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, self._former)
        if self._outer is not None:
            left = max(self._outer - time.monotonic(), 1e-6)
            signal.setitimer(signal.ITIMER_REAL, left, self._outer_again)

    def _ring(self, number: int, frame: FrameType | None) -> None:
        now = time.monotonic()
        if self._outer is not None and now >= self._outer:
            self._outer = now + self._outer_again if self._outer_again else None
            self._set()
            if callable(self._former):
                self._former(number, frame)
            else:  # the default action ends the process, as it would without this limit
                signal.signal(signal.SIGALRM, self._former)
                signal.raise_signal(signal.SIGALRM)
                signal.signal(signal.SIGALRM, self._ring)
        if now >= self._deadline:
            self.expired = True
            # raised from the exit itself it would leave the handler behind
            if frame is None or frame.f_code not in _EXIT:
                raise Expired(self)


_EXIT = (time_limit.__exit__.__code__, time_limit._restore.__code__)


def _can_interrupt() -> bool:
    if not hasattr(signal, "setitimer"):
        return False
    if threading.current_thread() is not threading.main_thread():
        return False
    return signal.getsignal(signal.SIGALRM) is not None  # None: not Python's, can't be put back
