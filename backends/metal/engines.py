"""The two ways to Apple's GPU, and which of them is taken."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING

from cede.backends.coreml.here import DELEGATE_ID as COREML_ID
from cede.backends.coreml.here import missing
from cede.backends.coreml.options import (
    ComputeUnit,
    CoreMLOptions,
    Precision,
    Target,
    compile_specs,
)
from cede.backends.metal import gguf
from cede.backends.metal.generated import import_mlx, lacking
from cede.errors import PluginError
from cede.running.linked import is_linked
from cede.types import Availability

if TYPE_CHECKING:
    from collections.abc import Sequence

    from cede.types import Spec

MLX_ID = "MLXBackend"
MLX_SPECS: tuple[Spec, ...] = (("engine", b"mlx"),)
"""MLX reads no compile specs; this one says in a plan whose delegate it is."""


class Engine(str, Enum):
    """Which compiler makes the delegates."""

    auto = "auto"
    mlx = "mlx"
    coreml = "coreml"


@dataclass(frozen=True, kw_only=True)
class MetalOptions:
    """Options of the Metal backend.

    Attributes:
        engine: mlx (ExecuTorch's MLX delegate), coreml (Core ML on CPU and GPU), or auto: mlx
            where it can compile, coreml otherwise.
        compute_precision: float16 or float32, of the engine coreml. MLX computes in the program's
            own dtypes.
        minimum_deployment_target: oldest system, of the engine coreml.
    """

    engine: Engine = Engine.auto
    compute_precision: Precision = Precision.float16
    minimum_deployment_target: Target = Target.iOS18


def chosen(options: MetalOptions) -> tuple[Engine, str | None]:
    """The engine for these options, and why it can't be used here (None if it can)."""
    reasons = {Engine.mlx: lacking(), Engine.coreml: missing()}
    if options.engine is not Engine.auto:
        return options.engine, reasons[options.engine]
    for engine, why in reasons.items():
        if why is None:
            return engine, None
    return Engine.mlx, "; ".join(f"{engine.value}: {why}" for engine, why in reasons.items())


def coreml_options(options: MetalOptions) -> CoreMLOptions:
    """What Core ML is asked for, so that it computes on the GPU."""
    return CoreMLOptions(
        compute_unit=ComputeUnit.cpu_and_gpu,
        compute_precision=options.compute_precision,
        minimum_deployment_target=options.minimum_deployment_target,
    )


def specs_for(options: MetalOptions) -> Sequence[Spec]:
    """Compile specs of the chosen engine.

    Raises:
        PluginError: it can't be used here.
    """
    engine, why = chosen(options)
    if why is not None:
        raise PluginError(f"metal: {why}")
    return MLX_SPECS if engine is Engine.mlx else compile_specs(coreml_options(options))


def delegate_for(specs: Sequence[Spec]) -> str:
    """The id of the engine that these specs are for; makes ExecuTorch know its compiler.

    Raises:
        PluginError: its compiler can't be had here.
    """
    if any(spec in MLX_SPECS for spec in specs):
        import_mlx()
        gguf.register()
        return MLX_ID
    if (why := missing()) is not None:
        raise PluginError(f"metal: the plan is for the engine coreml: {why}")
    import executorch.backends.apple.coreml.compiler  # noqa: F401

    return COREML_ID


def available() -> Availability:
    """Claiming and lowering need one of the engines; running needs macOS."""
    _, why = chosen(MetalOptions())
    return Availability(claim=why, lower=why, run=_no_runtime())


def _no_runtime() -> str | None:
    if sys.platform != "darwin":
        return f"Apple's GPU needs macOS, this is {sys.platform}: run the program there"
    if not (is_linked(MLX_ID) or is_linked(COREML_ID)):
        return (
            "ExecuTorch's runtime here is built without MLX and Core ML: build executorch with"
            " EXECUTORCH_BUILD_MLX=ON, or install its wheel for macOS"
        )
    return None
