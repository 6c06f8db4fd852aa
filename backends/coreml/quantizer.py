"""Core ML's quantizers: coremltools' own, and the annotations of XNNPACK's, which it reads too."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from cede.backends.coreml.here import missing
from cede.types import Quantizer


def _make(mode: str, per_channel: bool) -> Any:
    from coremltools.optimize.torch.quantization import LinearQuantizerConfig
    from executorch.backends.apple.coreml.quantizer import CoreMLQuantizer

    scheme = {
        "quantization_scheme": "symmetric",
        "activation_dtype": "quint8" if mode == "static" else "float32",
        "weight_dtype": "qint8",
        "weight_per_channel": per_channel,
    }
    return CoreMLQuantizer(LinearQuantizerConfig.from_dict({"global_config": scheme}))


def _make_baseline(mode: str, per_channel: bool) -> Any:
    return _baseline(per_channel, -127, 127)


def _make_baseline_four_bits(mode: str, per_channel: bool) -> Any:
    return _baseline(per_channel, -8, 7)


def _baseline(per_channel: bool, low: int, high: int) -> Any:
    from executorch.backends.xnnpack.quantizer.xnnpack_quantizer import (
        XNNPACKQuantizer,
        get_symmetric_quantization_config,
    )

    scheme = get_symmetric_quantization_config(
        is_per_channel=per_channel, is_dynamic=False, weight_qmin=low, weight_qmax=high
    )
    return XNNPACKQuantizer().set_global(scheme)


QUANTIZER = Quantizer(
    name="coreml",
    backend="coreml",
    modes=("static", "weight-only"),
    make=_make,
    available=missing,
)
BASELINE = replace(QUANTIZER, name="coreml_baseline", modes=("static",), make=_make_baseline)
BASELINE_FOUR_BITS = replace(BASELINE, name="coreml_baseline_c4", make=_make_baseline_four_bits)

QUANTIZERS = (QUANTIZER, BASELINE, BASELINE_FOUR_BITS)
