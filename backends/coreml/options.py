"""Options of the Core ML backend, as ExecuTorch's compile specs have them."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING

from cede.errors import ConfigError

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


class Quantize(str, Enum):
    """What Core ML makes of float weights when a delegate is compiled."""

    none = "none"
    b4w = "b4w"
    c4w = "c4w"

    @property
    def config(self) -> dict[str, object] | None:
        """Of coremltools' `OpLinearQuantizerConfig` (`partitioner_lib.py` of ExecuTorch)."""
        plain: dict[str, object] = {"mode": "linear_symmetric", "dtype": "int4"}
        if self is Quantize.b4w:
            return {
                **plain, "granularity": "per_block", "block_size": 32, "weight_threshold": 512,
            }  # fmt: skip
        return {**plain, "granularity": "per_channel"} if self is Quantize.c4w else None


@dataclass(frozen=True, kw_only=True)
class CoreMLOptions:
    """Options of the Core ML backend.

    Attributes:
        compute_unit: what Core ML may use: all, cpu_only, cpu_and_gpu or cpu_and_ne.
        compute_precision: float16 or float32. The Neural Engine computes in float16 only.
        minimum_deployment_target: oldest system that the program runs on, such as iOS17 or
            macOS14. Before iOS18 (macOS15) no op is taken that reads constants alone, for such a
            delegate has no inputs, which older systems refuse.
        quantize: int4 for float weights that are no embeddings, from iOS18 (macOS15) on: b4w with a
            scale for 32 values of a row, c4w with one a row; none leaves them.
    """

    compute_unit: ComputeUnit = ComputeUnit.all
    compute_precision: Precision = Precision.float16
    minimum_deployment_target: Target = Target.iOS18
    quantize: Quantize = Quantize.none


def compile_specs(options: CoreMLOptions) -> Sequence[Spec]:
    """The options as ExecuTorch's Core ML compiler reads them; imports it.

    Raises:
        ConfigError: weights in int4 for a system that has none.
    """
    target = options.minimum_deployment_target
    if options.quantize is not Quantize.none and target.needs_inputs:
        raise ConfigError(
            f"options.coreml.quantize: {options.quantize.value} needs iOS18 or macOS15, and"
            f" minimum_deployment_target is {target.value}"
        )
    import coremltools as ct
    from executorch.backends.apple.coreml.compiler import CoreMLBackend

    given = CoreMLBackend.generate_compile_specs(
        compute_unit=ct.ComputeUnit[options.compute_unit.value.upper()],
        minimum_deployment_target=ct.target[target.value],
        compute_precision=ct.precision[options.compute_precision.value.upper()],
        op_linear_quantizer_config=options.quantize.config,
    )
    return tuple((spec.key, bytes(spec.value)) for spec in given)
