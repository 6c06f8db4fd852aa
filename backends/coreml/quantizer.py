"""Core ML's quantizer, of coremltools: int8, static or weights alone."""

from __future__ import annotations

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


QUANTIZER = Quantizer(
    name="coreml",
    backend="coreml",
    modes=("static", "weight-only"),
    make=_make,
    available=missing,
)
