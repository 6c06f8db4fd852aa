"""TOSA's records: Arm's stock partitioner adopted, and a runner in the reference model."""

from __future__ import annotations

from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

from cede.backends.tosa.options import TosaOptions, integers_alone
from cede.backends.tosa.partitioner import TosaPartitioner
from cede.backends.tosa.quantizer import tosa_quantizer
from cede.hookspec import hookimpl
from cede.running.linked import shipped
from cede.types import Availability, Backend

if TYPE_CHECKING:
    from collections.abc import Iterator

    from cede.types import LoadedProgram, Partitioner, Quantizer, Spec

DELEGATE_ID = "TOSABackend"
INSTALL = (
    "install tosa-tools, which pins older numpy and flatbuffers: pip install 'cede[tosa]' in an"
    " environment of its own"
)


def _stock(options: TosaOptions) -> Any:
    from executorch.backends.arm.tosa.compile_spec import TosaCompileSpec
    from executorch.backends.arm.tosa.partitioner import TOSAPartitioner

    return TOSAPartitioner(TosaCompileSpec(options.specification))


def _register() -> None:
    import executorch.backends.arm.tosa.backend  # noqa: F401


def _specs(options: TosaOptions) -> list[Spec]:
    from executorch.backends.arm.tosa.compile_spec import TosaCompileSpec

    given = TosaCompileSpec(options.specification)._to_list()
    return [(spec.key, bytes(spec.value)) for spec in given]


def _load(data: bytes) -> LoadedProgram:
    from cede.backends.tosa.runner import load

    return load(data)


def missing() -> str | None:
    """Why nothing can be claimed for a target that compiles from TOSA, None if it can."""
    if not shipped("backends/arm/tosa"):
        return "this executorch comes without its Arm compilers: install executorch>=1.5.1"
    if find_spec("tosa_serializer") is None:
        return f"there is no TOSA serializer here: {INSTALL}"
    return None


def available() -> Availability:
    """TOSA's serializer and reference model come in one package."""
    run = None
    if find_spec("tosa_reference_model") is None:
        run = f"there is no TOSA reference model here: {INSTALL}"
    return Availability(claim=missing(), lower=missing(), run=run)


@hookimpl
def cede_partitioners() -> Iterator[Partitioner]:
    """Arm's partitioner for plain TOSA."""
    yield TosaPartitioner(
        name="tosa",
        backend="tosa",
        delegate_id=DELEGATE_ID,
        make=_stock,
        integers=lambda options: integers_alone(options.specification),
    )


@hookimpl
def cede_quantizers() -> Iterator[Quantizer]:
    """How its programs are annotated for int8."""
    yield tosa_quantizer(missing)


@hookimpl
def cede_backends() -> Iterator[Backend]:
    """TOSA graphs, for those who compile them further or check their numbers."""
    yield Backend(
        name="tosa",
        delegate_id=DELEGATE_ID,
        available=available,
        register=_register,
        compile_specs=_specs,
        options=TosaOptions,
        load=_load,
        quantizers=("tosa",),
    )
