"""OpenVINO's quantizers, of nncf: int8, static or weights alone, and weights of 4 bits."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import Any

from cede.backends.openvino.installed import available
from cede.types import Quantizer

GROUP = 128
"""Weights of 4 bits that share a scale; a row that it does not divide stays in 8 bits."""


def _make(mode: str, per_channel: bool) -> Any:
    from executorch.backends.openvino.quantizer import OpenVINOQuantizer, QuantizationMode
    from nncf.quantization.advanced_parameters import QuantizationParameters

    if mode == "weight-only":
        return OpenVINOQuantizer(mode=QuantizationMode.INT8WO_ASYM, group_size=-1, ratio=None)
    return OpenVINOQuantizer(
        weights_quantization_params=QuantizationParameters(per_channel=per_channel)
    )


def _make_four_bits(group: int, mode: str, per_channel: bool) -> Any:
    from executorch.backends.openvino.quantizer import OpenVINOQuantizer, QuantizationMode

    return OpenVINOQuantizer(mode=QuantizationMode.INT4WO_SYM, group_size=group, ratio=1)


def _available() -> str | None:
    return available().claim


# Its delegate reads the quantize op of a weight itself; a folded weight fails to compile.
QUANTIZER = Quantizer(
    name="openvino",
    backend="openvino",
    modes=("static", "weight-only"),
    make=_make,
    available=_available,
    fold=False,
    masks=False,
)
FOUR_BITS = replace(
    QUANTIZER, name="openvino_c4", modes=("weight-only",), make=partial(_make_four_bits, GROUP),
    granularities=(True,),
)  # fmt: skip
GROUPED = tuple(
    replace(FOUR_BITS, name=f"openvino_c4_{group}", make=partial(_make_four_bits, group))
    for group in (32, 64, 128, 256)
)
"""The same with another group."""
