"""What a backend says it can do here, asked so that whatever it does ends as an answer."""

from __future__ import annotations

from typing import TYPE_CHECKING

from cede.host.guard import Trouble, guarded
from cede.types import Availability

if TYPE_CHECKING:
    from cede.types import Backend

SECONDS = 30.0
"""How long one backend may take to answer, where no config says it (`plugins.seconds`)."""


def ability(backend: Backend, seconds: float = SECONDS) -> Availability:
    """Ask a backend what can be done here.

    One that raises, exits, takes too long or answers anything else can do nothing, and the reason
    says that it could not be told.

    Args:
        backend: the backend.
        seconds: how long it may take; see `time_limit` for what can be interrupted.
    """
    given = guarded(backend.available, seconds, "plugins.seconds")
    if isinstance(given, Trouble):
        return _unknown(backend, given.reason)
    if not isinstance(given, Availability):
        return _unknown(backend, f"it answered {type(given).__name__}, not an Availability")
    for field in ("claim", "lower", "run"):
        why = getattr(given, field)
        if why is not None and not (isinstance(why, str) and why.strip()):
            return _unknown(backend, f"its {field} is {why!r}, neither None nor a reason")
    return given


def _unknown(backend: Backend, reason: str) -> Availability:
    why = f"backend {backend.name!r} can't tell: {reason}"
    return Availability(claim=why, lower=why, run=why)
