"""Options of the Core ML backend, as ExecuTorch's compile specs have them."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

    from cede.types import Spec


class ComputeUnit(str, Enum):
    """What Core ML may compute on (`coremltools.ComputeUnit`)."""

    all = "all"
    cpu_only = "cpu_only"
    cpu_and_gpu = "cpu_and_gpu"
    cpu_and_ne = "cpu_and_ne"


class Precision(str, Enum):
    """What a delegate computes floating-point numbers in (`coremltools.precision`)."""

    float16 = "float16"
    float32 = "float32"


class Target(str, Enum):
    """The oldest system that a delegate runs on (`coremltools.target`)."""

    iOS15 = "iOS15"
    iOS16 = "iOS16"
    iOS17 = "iOS17"
    iOS18 = "iOS18"
    iOS26 = "iOS26"
    macOS12 = "macOS12"
    macOS13 = "macOS13"
    macOS14 = "macOS14"
    macOS15 = "macOS15"
    macOS26 = "macOS26"

    @property
    def needs_inputs(self) -> bool:
        """Whether a delegate without inputs can't run there."""
        return self.value not in ("iOS18", "iOS26", "macOS15", "macOS26")


@dataclass(frozen=True, kw_only=True)
class CoreMLOptions:
    """Options of the Core ML backend.

    Attributes:
        compute_unit: what Core ML may use: all, cpu_only, cpu_and_gpu or cpu_and_ne.
        compute_precision: float16 or float32. The Neural Engine computes in float16 only.
        minimum_deployment_target: oldest system that the program runs on, such as iOS17 or
            macOS14. Before iOS18 (macOS15) no op is taken that reads constants alone, for such a
            delegate has no inputs, which older systems refuse.
    """

    compute_unit: ComputeUnit = ComputeUnit.all
    compute_precision: Precision = Precision.float16
    minimum_deployment_target: Target = Target.iOS18


def compile_specs(options: CoreMLOptions) -> Sequence[Spec]:
    """The options as ExecuTorch's Core ML compiler reads them; imports it."""
    import coremltools as ct
    from executorch.backends.apple.coreml.compiler import CoreMLBackend

    given = CoreMLBackend.generate_compile_specs(
        compute_unit=ct.ComputeUnit[options.compute_unit.value.upper()],
        minimum_deployment_target=ct.target[options.minimum_deployment_target.value],
        compute_precision=ct.precision[options.compute_precision.value.upper()],
    )
    return tuple((spec.key, bytes(spec.value)) for spec in given)
