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
        masks: whether it leaves ops alone that are annotated already, as torchao's quantizers do:
            so it is told which ops are not its backend's.
        floats: whether its backend takes float programs, so that a plan of one tells what it will
            have; False gives it all that no other backend gets.
        finish: changes the converted `torch.fx.GraphModule` in place, so that the backend takes
            it; the numbers stay. None changes nothing.
    """

    name: str
    backend: str
    modes: tuple[str, ...]
    make: Callable[[str, bool], Any]
    available: Callable[[], str | None] = _here
    granularities: tuple[bool, ...] = (True, False)
    fold: bool = True
    masks: bool = True
    floats: bool = True
    finish: Callable[[Any], None] | None = None
