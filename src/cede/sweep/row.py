"""One line of the table."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from enum import Enum
from typing import Any


class Outcome(str, Enum):
    """What became of a model under a config."""

    OK = "ok"
    PARTLY = "partly"
    WRONG = "wrong"
    FAILED = "failed"
    CRASHED = "crashed"
    TIMED_OUT = "timed out"


FAULTS = (Outcome.WRONG, Outcome.FAILED, Outcome.CRASHED, Outcome.TIMED_OUT)
"""What makes `cede sweep` exit with 5."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """One model under one config. A number is None where the sweep did not get that far.

    Attributes:
        model: as it was asked for.
        config: its name in the sweep.
        outcome: what became of it; PARTLY where a backend can't go that far on this machine.
        step: the last one that was begun: "claim", "lower", "run" or "bench".
        ops: that compute something; `delegated` of them are in one of the `delegates`.
        flops: floating-point operations; `delegated_flops` of them are in a delegate.
        program_bytes: of the `.pte`.
        max_error: largest absolute difference to eager.
        seconds: median of one measured call.
        took: wall seconds of all steps.
        detail: what went wrong, or why it went no further.
    """

    model: str
    config: str
    outcome: Outcome
    step: str = "claim"
    ops: int | None = None
    delegated: int | None = None
    delegates: int | None = None
    flops: int | None = None
    delegated_flops: int | None = None
    program_bytes: int | None = None
    max_error: float | None = None
    seconds: float | None = None
    took: float = 0.0
    detail: str = ""

    def values(self) -> dict[str, Any]:
        """Its fields by name, the outcome as text."""
        return asdict(self) | {"outcome": self.outcome.value}
