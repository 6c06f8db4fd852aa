"""What a program took, beside what it was predicted to take."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping


@dataclass(frozen=True, slots=True, kw_only=True)
class Timing:
    """Measured seconds of one call of a program.

    The parts are measured with the runtime's tracing on, the whole without: what is between them is
    the runtime's own, and what tracing costs.

    Attributes:
        seconds: median of a call.
        calls: how many were measured.
        runtime: "executorch", or the backend whose runner ran it.
        delegates: median of each delegation, by id; {} where the runtime traces nothing.
        ops: median of each op that was left, by id.
        kernels: of each delegation the names and medians of what it ran, as far as it tells.
    """

    seconds: float
    calls: int
    runtime: str = "executorch"
    delegates: Mapping[str, float] = field(default_factory=dict)
    ops: Mapping[str, float] = field(default_factory=dict)
    kernels: Mapping[str, tuple[tuple[str, float], ...]] = field(default_factory=dict)
