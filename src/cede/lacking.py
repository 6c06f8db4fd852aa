"""What a machine has too little of, read from an error of whatever was called."""

from __future__ import annotations

import ctypes
import errno
import io
import tempfile
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

_FULL = (errno.ENOSPC, errno.EFBIG, errno.EDQUOT)
_MEMORY = ("can't allocate memory", "Cannot allocate memory", "std::bad_alloc")
"""What torch's allocator says, in a RuntimeError, and C++ code that was bound to Python."""


def lack(error: BaseException) -> str:
    """What this machine has too little of, "" where that isn't the reason."""
    for each in chain(error):
        if isinstance(each, MemoryError) or any(text in str(each) for text in _MEMORY):
            return "not enough memory; close other programs, or lower a smaller model"
        if isinstance(each, OSError) and each.errno in _FULL:
            return (
                f"{each.strerror} ({each.filename or 'a temporary file'}); free space in"
                f" {tempfile.gettempdir()}, or set TMPDIR to a folder that has it"
            )
    return ""


def chain(error: BaseException) -> Iterator[BaseException]:
    """An error and its causes."""
    current: BaseException | None = error
    while current is not None:
        yield current
        current = current.__cause__


def archived(save: Callable[[io.BytesIO], object]) -> bytes:
    """What torch writes of an archive, into memory.

    torch's writer finishes its archive while an error of the file passes, and aborts the process
    where that fails again (`PyTorchStreamWriter`, 2.13). This file never fails.

    Args:
        save: writes the archive to a file.

    Raises:
        MemoryError: it had no place.
    """
    file = _Unfailing()
    try:
        save(file)
    except (RuntimeError, MemoryError) as error:
        _leave_unfinished(error)
        if file.lost or "unexpected pos" in str(error):  # a copy for the file had no place
            raise MemoryError("an archive of torch had no place") from error
        raise
    if file.lost:
        raise MemoryError("an archive of torch had no place")
    return file.getvalue()


def _leave_unfinished(error: BaseException) -> None:
    """Keep the writers that an error came through from being finished as they are let go of."""
    trace = error.__traceback__
    while trace is not None:
        for held in trace.tb_frame.f_locals.values():
            writer = getattr(held, "archive_file", None)  # of a `PT2ArchiveWriter`
            if type(writer).__name__ == "PyTorchFileWriter":
                ctypes.pythonapi.Py_IncRef(ctypes.py_object(writer))
        trace = trace.tb_next


class _Unfailing(io.BytesIO):
    """Bytes in memory; where it ends, writing goes on as if nothing had happened."""

    lost = False

    def write(self, data: Any) -> int:
        """As that of a file."""
        if not self.lost:
            try:
                return super().write(data)
            except MemoryError:
                self.lost = True
                super().seek(0)
                super().truncate()
        return memoryview(data).nbytes
