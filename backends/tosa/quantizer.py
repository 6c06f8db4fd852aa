"""TOSA's quantizer, of Arm: int8, static. The backend then needs the profile `int`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from cede.types import Quantizer

if TYPE_CHECKING:
    from collections.abc import Callable


def _make(mode: str, per_channel: bool) -> Any:
    from executorch.backends.arm.quantizer import TOSAQuantizer, get_symmetric_quantization_config
    from executorch.backends.arm.tosa.compile_spec import TosaCompileSpec

    quantizer = TOSAQuantizer(TosaCompileSpec("TOSA-1.0+INT"))
    quantizer.set_global(get_symmetric_quantization_config(is_per_channel=per_channel))
    return quantizer


def tosa_quantizer(missing: Callable[[], str | None]) -> Quantizer:
    """The record, with what tells why it can't be made here."""
    # With the profile `int` it takes nothing of a float program.
    return Quantizer(
        name="tosa",
        backend="tosa",
        modes=("static",),
        make=_make,
        available=missing,
        floats=False,
    )
