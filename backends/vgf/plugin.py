"""VGF's records: Arm's stock partitioner adopted."""

from __future__ import annotations

import os
from dataclasses import dataclass
from shutil import which
from typing import TYPE_CHECKING, Any

from cede.backends.tosa.options import Profile
from cede.backends.tosa.partitioner import TosaPartitioner
from cede.backends.tosa.plugin import missing
from cede.hookspec import hookimpl
from cede.running.linked import is_linked
from cede.types import Availability, Backend

if TYPE_CHECKING:
    from collections.abc import Iterator

    from cede.types import Partitioner

DELEGATE_ID = "VgfBackend"


@dataclass(frozen=True, kw_only=True)
class VgfOptions:
    """Options of the VGF backend.

    Attributes:
        profile: what a delegate computes in: fp, int or fp_int.
    """

    profile: Profile = Profile.fp_int


def _stock(options: VgfOptions) -> Any:
    from executorch.backends.arm.vgf import VgfCompileSpec
    from executorch.backends.arm.vgf.partitioner import VgfPartitioner

    return VgfPartitioner(VgfCompileSpec(f"TOSA-1.0+{options.profile.value}"))


def _register() -> None:
    import executorch.backends.arm.vgf.backend  # noqa: F401


def available() -> Availability:
    """Deciding needs TOSA's serializer, compiling Arm's model converter as well."""
    claim = lower = missing()
    run = None
    if lower is None and not (
        os.environ.get("MODEL_CONVERTER_PATH")
        or which("model-converter")
        or which("model_converter")
    ):
        lower = (
            "there is no model-converter on PATH: pip install ai_ml_sdk_model_converter==0.10.0,"
            " or set MODEL_CONVERTER_PATH"
        )
    if not is_linked(DELEGATE_ID):
        run = (
            "ExecuTorch's runtime here is built without VGF: build executorch with"
            " EXECUTORCH_BUILD_VGF=ON"
        )
    return Availability(claim=claim, lower=lower, run=run)


@hookimpl
def cede_partitioners() -> Iterator[Partitioner]:
    """Arm's partitioner for VGF."""
    yield TosaPartitioner(
        name="vgf",
        backend="vgf",
        delegate_id=DELEGATE_ID,
        make=_stock,
        integers=lambda options: options.profile is Profile.int,
    )


@hookimpl
def cede_backends() -> Iterator[Backend]:
    """GPUs with Arm's ML extensions for Vulkan."""
    yield Backend(
        name="vgf",
        delegate_id=DELEGATE_ID,
        available=available,
        register=_register,
        options=VgfOptions,
    )
