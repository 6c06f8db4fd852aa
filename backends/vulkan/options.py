"""Options of the Vulkan backend, as ExecuTorch's partitioner and compiler read them."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import Any


class Storage(str, Enum):
    """Where the GPU keeps tensors unless an op asks for something else (`VkStorageType`)."""

    texture_3d = "texture_3d"
    texture_2d = "texture_2d"
    buffer = "buffer"


class Layout(str, Enum):
    """Which dimension lies four values to a texel (`VkMemoryLayout`)."""

    width_packed = "width_packed"
    height_packed = "height_packed"
    channels_packed = "channels_packed"


@dataclass(frozen=True, kw_only=True)
class VulkanOptions:
    """Options of the Vulkan backend.

    Attributes:
        force_fp16: compute and keep float32 tensors in float16.
        storage: texture_3d, texture_2d or buffer.
        layout: width_packed, height_packed or channels_packed.
        small_textures: stay below 2048 texels in every direction, as most desktop GPUs ask;
            otherwise 16384 x 16384 x 2048, as mobile ones have. Larger tensors become buffers, or
            their ops are left.
        dynamic_shapes: claim only ops that can be resized while running.
        skip_bool: leave ops with bool tensors, for GPUs without 8-bit buffers.
        downcast_64_bit: keep int64 and float64 tensors in 32 bits; the GPU has no others.
    """

    force_fp16: bool = False
    storage: Storage = Storage.texture_3d
    layout: Layout = Layout.width_packed
    small_textures: bool = False
    dynamic_shapes: bool = False
    skip_bool: bool = False
    downcast_64_bit: bool = True


def compile_options(options: VulkanOptions) -> dict[str, Any]:
    """What `VulkanPartitioner` takes. Defaults of ExecuTorch are left out; imports it."""
    from executorch.backends.vulkan.serialization.vulkan_graph_schema import (
        VkMemoryLayout,
        VkStorageType,
    )

    given: dict[str, Any] = {
        "force_fp16": options.force_fp16,
        "small_texture_limits": options.small_textures,
        "require_dynamic_shapes": options.dynamic_shapes,
        "skip_bool_tensors": options.skip_bool,
        "downcast_64_bit": options.downcast_64_bit,
    }
    if options.storage is not Storage.texture_3d:
        given["storage_type_override"] = VkStorageType[options.storage.value.upper()]
    if options.layout is not Layout.width_packed:
        name = f"TENSOR_{options.layout.value.upper()}"
        given["memory_layout_override"] = VkMemoryLayout[name]
    # Absent is ExecuTorch's default for switches too, and keeps delegates mergeable.
    return {key: value for key, value in given.items() if value != DEFAULTS.get(key)}


DEFAULTS = {
    "force_fp16": False,
    "small_texture_limits": False,
    "require_dynamic_shapes": False,
    "skip_bool_tensors": False,
    "downcast_64_bit": True,
}
"""What ExecuTorch's Vulkan compiler does without a compile spec."""
