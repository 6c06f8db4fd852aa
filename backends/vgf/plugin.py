"""VGF's records: Arm's stock partitioner adopted."""

from __future__ import annotations

import os
import subprocess
from dataclasses import dataclass, field
from shutil import which
from typing import TYPE_CHECKING, Any

from cede.backends.tosa.options import Profile, check_version, integers_alone
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
        version: the whole TOSA specification ("TOSA-1.0+INT+int16"), in place of profile; empty
            takes that.
        compiler_flags: more flags for Arm's model converter.
    """

    profile: Profile = Profile.fp_int
    version: str = field(default="", metadata={"check": check_version})
    compiler_flags: list[str] = field(default_factory=list)

    @property
    def specification(self) -> str:
        """As TOSA spells it ("TOSA-1.0+FP+INT")."""
        return self.version or f"TOSA-1.0+{self.profile.value}"


def _stock(options: VgfOptions) -> Any:
    from executorch.backends.arm.vgf import VgfCompileSpec
    from executorch.backends.arm.vgf.partitioner import VgfPartitioner

    return VgfPartitioner(VgfCompileSpec(options.specification, list(options.compiler_flags)))


def _register() -> None:
    import executorch.backends.arm.vgf.backend  # noqa: F401


def available() -> Availability:
    """Deciding needs TOSA's serializer, compiling Arm's model converter as well."""
    claim = lower = missing()
    run = None
    if lower is None:
        lower = _converter_missing()
    if not is_linked(DELEGATE_ID):
        run = (
            "ExecuTorch's runtime here is built without VGF: build executorch with"
            " EXECUTORCH_BUILD_VGF=ON"
        )
    return Availability(claim=claim, lower=lower, run=run)


def _converter_missing() -> str | None:
    names = ("model-converter", "model_converter")
    found = os.environ.get("MODEL_CONVERTER_PATH") or next(filter(None, map(which, names)), None)
    if found is None:
        return (
            "there is no model-converter on PATH: pip install ai_ml_sdk_model_converter==0.10.0,"
            " or set MODEL_CONVERTER_PATH"
        )
    try:
        subprocess.run([found, "--version"], check=True, capture_output=True, text=True, timeout=10)
    except (OSError, subprocess.SubprocessError) as error:
        told = (getattr(error, "stderr", None) or str(error)).strip().splitlines()
        return (
            f"{found} does not start: {told[0] if told else error}; install a model-converter"
            " for this system"
        )
    return None


@hookimpl
def cede_partitioners() -> Iterator[Partitioner]:
    """Arm's partitioner for VGF."""
    yield TosaPartitioner(
        name="vgf",
        backend="vgf",
        delegate_id=DELEGATE_ID,
        make=_stock,
        integers=lambda options: integers_alone(options.specification),
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
