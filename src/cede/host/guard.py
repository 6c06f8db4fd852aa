"""Running plugin code so that whatever it does ends as a value."""

from __future__ import annotations

import traceback
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from cede.timelimit import Expired, time_limit

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import TracebackType

T = TypeVar("T")

LONGEST = 300
"""Characters of an error's text that a reason keeps; the trace has it all."""

_OURS = (str(Path(__file__).parent), str(Path(__file__).parent.parent / "timelimit.py"))


@dataclass(frozen=True, slots=True)
class Trouble:
    """What went wrong in plugin code: one line, and the traceback from its own code on."""

    reason: str
    trace: str


def guarded(call: Callable[[], T], seconds: float, setting: str) -> T | Trouble:
    """Call, and turn whatever is raised into `Trouble`, SystemExit included.

    Args:
        call: runs plugin code.
        seconds: how long it may take; see `time_limit` for what can be interrupted.
        setting: the config key that holds the limit, for the message.

    Raises:
        KeyboardInterrupt: the user's own wish to stop.
    """
    limit = time_limit(seconds)
    try:
        with limit:
            given = call()
    except (KeyboardInterrupt, Expired):  # Expired: a limit around all of this is over
        raise
    except BaseException as error:
        reason = f"{error} ({setting})" if limit.expired else _reason(error)
        return Trouble(reason, _trace(error))
    return given


def _reason(error: BaseException) -> str:
    if isinstance(error, SystemExit):
        return f"called sys.exit({error.code!r})"
    try:
        text = str(error)
    except Exception:  # a plugin's own exception class may break here too
        text = ""
    line = "; ".join(part.strip() for part in text.splitlines() if part.strip())
    if len(line) > LONGEST:
        line = f"{line[: LONGEST - 3]}..."
    return f"{type(error).__name__}: {line}" if line else type(error).__name__


def _trace(error: BaseException) -> str:
    trace = _after_ours(error.__traceback__)
    try:
        return "".join(traceback.format_exception(type(error), error, trace)).rstrip()
    except Exception as second:
        return f"{type(error).__name__} (its text can't be made: {type(second).__name__})"


def _after_ours(trace: TracebackType | None) -> TracebackType | None:
    """Drop the frames of the host and of the import machinery that precede the plugin's."""
    while trace is not None and _between(trace.tb_frame.f_code.co_filename):
        trace = trace.tb_next
    return trace


def _between(file: str) -> bool:
    machinery = "<frozen importlib" in file or "/importlib/" in file.replace("\\", "/")
    return machinery or file.startswith(_OURS)
