"""XNNPACK's quantizer: int8, static or dynamic."""

from __future__ import annotations

from typing import Any

from cede.types import Quantizer


def _make(mode: str, per_channel: bool) -> Any:
    from executorch.backends.xnnpack.quantizer.xnnpack_quantizer import (
        XNNPACKQuantizer,
        get_symmetric_quantization_config,
    )

    scheme = get_symmetric_quantization_config(
        is_per_channel=per_channel, is_dynamic=mode == "dynamic"
    )
    return XNNPACKQuantizer().set_global(scheme)


QUANTIZER = Quantizer(name="xnnpack", backend="xnnpack", modes=("static", "dynamic"), make=_make)
