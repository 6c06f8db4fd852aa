"""WebGPU's records: Vulkan's compiler under a name of its own."""

from __future__ import annotations

from typing import TYPE_CHECKING

from cede.backends.vulkan.options import VulkanOptions
from cede.backends.vulkan.plugin import DELEGATE_ID, VulkanPartitioner, compile_specs, register
from cede.hookspec import hookimpl
from cede.running.linked import shipped
from cede.types import Availability, Backend

if TYPE_CHECKING:
    from collections.abc import Iterator

    from cede.types import Partitioner

NAME = "webgpu"


def available() -> Availability:
    """ExecuTorch's WebGPU partitioner is Vulkan's, and so is the id in the program."""
    why = None
    if not shipped("backends/webgpu/partitioner") or not shipped("backends/vulkan/partitioner"):
        why = "this executorch comes without its WebGPU compiler: install executorch>=1.5.1"
    run = "ExecuTorch's WebGPU runtime runs in a browser or on Dawn: run the program there"
    return Availability(claim=why, lower=why, run=run)


@hookimpl
def cede_partitioners() -> Iterator[Partitioner]:
    """Vulkan's partitioner."""
    yield VulkanPartitioner(name=NAME, backend=NAME)


@hookimpl
def cede_backends() -> Iterator[Backend]:
    """GPUs of browsers."""
    yield Backend(
        name=NAME,
        delegate_id=DELEGATE_ID,
        available=available,
        register=register,
        compile_specs=compile_specs,
        options=VulkanOptions,
    )
