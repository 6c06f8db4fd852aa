"""Vulkan's records: the stock partitioner adopted, what it fuses kept together."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from cede.backends.vulkan.options import VulkanOptions, compile_options
from cede.backends.vulkan.quantizer import QUANTIZER
from cede.hookspec import hookimpl
from cede.partitioners.adopt import Adopted
from cede.partitioners.adopt.join import joined
from cede.running.linked import is_linked, shipped
from cede.types import Availability, Backend, Claim, Refusal

if TYPE_CHECKING:
    from collections.abc import Iterator

    from cede.types import Keep, Partitioner, Program, Quantizer, Spec

NAME = "vulkan"
DELEGATE_ID = "VulkanBackend"


@dataclass(frozen=True, slots=True, kw_only=True)
class VulkanPartitioner:
    """The stock partitioner's claims, one a unit that the compiler may fuse.

    Attributes:
        name: name of the partitioner.
        backend: name of the backend that it claims for.
    """

    name: str = NAME
    backend: str = NAME

    @property
    def _adopted(self) -> Adopted:
        return Adopted(name=self.name, backend=self.backend, delegate_id=DELEGATE_ID, make=_stock)

    def keeps(self, program: Program) -> Keep:
        """What the stock partitioner wants whole."""
        return self._adopted.keeps(program)

    def claim(self, program: Program) -> Iterator[Claim | Refusal]:
        """One claim per op or fused pattern, a refusal for every other op."""
        answers = list(self._adopted.claim(program))
        from cede.backends.vulkan.patterns import together

        claims = [answer for answer in answers if isinstance(answer, Claim)]
        groups = together(program.exported.graph_module)
        yield from joined(claims, groups, program.graph)
        yield from (answer for answer in answers if isinstance(answer, Refusal))


def _stock(options: VulkanOptions) -> Any:
    from executorch.backends.vulkan.partitioner import vulkan_partitioner

    from cede.backends.vulkan.patterns import keep_graphs

    keep_graphs()
    return vulkan_partitioner.VulkanPartitioner(compile_options(options))


def register() -> None:
    """Make ExecuTorch know Vulkan's compiler."""
    from cede.backends.vulkan.patterns import keep_graphs

    keep_graphs()
    import executorch.backends.vulkan.vulkan_preprocess  # noqa: F401


def compile_specs(options: VulkanOptions) -> list[Spec]:
    """The options as Vulkan's compiler reads them."""
    from executorch.backends.vulkan.partitioner.vulkan_partitioner import parse_compile_options

    given = parse_compile_options(compile_options(options))
    return [(spec.key, bytes(spec.value)) for spec in given]


def available() -> Availability:
    """Lowered wherever ExecuTorch's compiler is installed, run where its delegate is linked."""
    run = None
    if not is_linked(DELEGATE_ID):
        run = (
            "ExecuTorch's runtime here is built without Vulkan: run the program on the device, or"
            " build executorch with EXECUTORCH_BUILD_VULKAN=ON"
        )
    if not shipped("backends/vulkan/partitioner"):
        why = "this executorch comes without its Vulkan compiler: install executorch>=1.5.1"
        return Availability(claim=why, lower=why, run=run)
    return Availability(run=run)


@hookimpl
def cede_partitioners() -> Iterator[Partitioner]:
    """The stock partitioner."""
    yield VulkanPartitioner()


@hookimpl
def cede_quantizers() -> Iterator[Quantizer]:
    """How its programs are annotated for int8."""
    yield QUANTIZER


@hookimpl
def cede_backends() -> Iterator[Backend]:
    """ExecuTorch's delegate for GPUs."""
    yield Backend(
        name=NAME,
        delegate_id=DELEGATE_ID,
        available=available,
        register=register,
        compile_specs=compile_specs,
        options=VulkanOptions,
        quantizers=("vulkan",),
    )
