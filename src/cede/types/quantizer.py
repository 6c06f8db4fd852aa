"""How a backend wants a program annotated before it is calibrated and converted to integers."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable


MODES = ("static", "dynamic", "weight-only")
"""What a quantizer may be asked for."""


def _here() -> str | None:
    return None


@dataclass(frozen=True, slots=True, kw_only=True)
class Quantizer:
    """A quantizer of a backend for PyTorch 2 export quantization (pt2e).

    Attributes:
        name: lower-case name, unique among quantizers.
        backend: name of the backend that computes what it annotates.
        modes: what it can be asked for: "static" (int8 weights and activations, scales from
            calibration), "dynamic" (activations quantized while running), "weight-only".
        make: a new `torchao.quantization.pt2e.quantizer.Quantizer` for one of the modes, with
            weights per channel or per tensor; imports what is heavy when called.
        available: None, or why it can't be made here and what to install; quick.
        granularities: what `per_channel` may be.
        fold: whether weights are stored quantized; False keeps them in float with the quantize op
            behind them, for backends that read it so.
    """

    name: str
    backend: str
    modes: tuple[str, ...]
    make: Callable[[str, bool], Any]
    available: Callable[[], str | None] = _here
    granularities: tuple[bool, ...] = (True, False)
    fold: bool = True
