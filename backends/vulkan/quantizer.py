"""Vulkan's quantizer: linear ops with int8 weights, alone or with dynamic activations."""

from __future__ import annotations

from typing import Any

from cede.running.linked import shipped
from cede.types import Quantizer


def _make(mode: str, per_channel: bool) -> Any:
    from executorch.backends.vulkan.quantizer.vulkan_quantizer import (
        VulkanQuantizer,
        get_symmetric_quantization_config,
    )

    return VulkanQuantizer().set_global(
        get_symmetric_quantization_config(is_dynamic=mode == "dynamic")
    )


def _available() -> str | None:
    if shipped("backends/vulkan/quantizer"):
        return None
    return "this executorch comes without its Vulkan quantizer: install executorch>=1.5.1"


QUANTIZER = Quantizer(
    name="vulkan",
    backend="vulkan",
    modes=("dynamic", "weight-only"),
    make=_make,
    available=_available,
    granularities=(True,),
)
