"""Ethos-U's records: Arm's stock partitioner adopted."""

from __future__ import annotations

from dataclasses import dataclass, field
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

from cede.backends.tosa.partitioner import TosaPartitioner
from cede.backends.tosa.plugin import missing
from cede.hookspec import hookimpl
from cede.running.linked import is_linked
from cede.types import Availability, Backend

if TYPE_CHECKING:
    from collections.abc import Iterator

    from cede.types import Partitioner

DELEGATE_ID = "EthosUBackend"


@dataclass(frozen=True, kw_only=True)
class EthosUOptions:
    """Options of the Ethos-U backend. It computes integers: quantize the program first.

    Attributes:
        target: the accelerator and its size, such as ethos-u55-128 or ethos-u85-256.
        system_config: a section of Vela's config file; empty is the target's default.
        memory_mode: a section of Vela's config file; empty is the target's default.
        extra_flags: more flags for Vela, such as "--verbose-performance".
    """

    target: str = "ethos-u55-128"
    system_config: str = ""
    memory_mode: str = ""
    extra_flags: list[str] = field(default_factory=list)


def _stock(options: EthosUOptions) -> Any:
    from executorch.backends.arm.ethosu import EthosUCompileSpec
    from executorch.backends.arm.ethosu.partitioner import EthosUPartitioner

    return EthosUPartitioner(
        EthosUCompileSpec(
            options.target,
            system_config=options.system_config or None,
            memory_mode=options.memory_mode or None,
            extra_flags=list(options.extra_flags) or None,
        )
    )


def _register() -> None:
    import executorch.backends.arm.ethosu.backend  # noqa: F401


def available() -> Availability:
    """Deciding needs TOSA's serializer, compiling Vela as well."""
    claim = lower = missing()
    run = None
    if lower is None and find_spec("ethosu") is None:
        lower = "there is no Vela here: pip install ethos-u-vela==5.1.0"
    if not is_linked(DELEGATE_ID):
        run = "ExecuTorch's runtime here is built without Ethos-U: run the program on the device"
    return Availability(claim=claim, lower=lower, run=run)


@hookimpl
def cede_partitioners() -> Iterator[Partitioner]:
    """Arm's partitioner for Ethos-U."""
    yield TosaPartitioner(
        name="ethosu",
        backend="ethosu",
        delegate_id=DELEGATE_ID,
        make=_stock,
        integers=lambda options: True,
    )


@hookimpl
def cede_backends() -> Iterator[Backend]:
    """Arm's NPUs for microcontrollers."""
    yield Backend(
        name="ethosu",
        delegate_id=DELEGATE_ID,
        available=available,
        register=_register,
        options=EthosUOptions,
    )
