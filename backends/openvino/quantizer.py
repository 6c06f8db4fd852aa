"""OpenVINO's quantizer, of nncf: int8, static."""

from __future__ import annotations

from typing import Any

from cede.backends.openvino.installed import available
from cede.types import Quantizer


def _make(mode: str, per_channel: bool) -> Any:
    from executorch.backends.openvino.quantizer import OpenVINOQuantizer
    from nncf.quantization.advanced_parameters import QuantizationParameters

    return OpenVINOQuantizer(
        weights_quantization_params=QuantizationParameters(per_channel=per_channel)
    )


def _available() -> str | None:
    return available().claim


# Its delegate reads the quantize op of a weight itself; a folded weight fails to compile.
QUANTIZER = Quantizer(
    name="openvino",
    backend="openvino",
    modes=("static",),
    make=_make,
    available=_available,
    fold=False,
    masks=False,
)
