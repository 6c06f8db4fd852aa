"""ENN's records: Samsung's stock partitioner adopted."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING, Any

from cede.hookspec import hookimpl
from cede.partitioners.adopt import Adopted
from cede.running.linked import is_linked, shipped
from cede.types import Availability, Backend

if TYPE_CHECKING:
    from collections.abc import Iterator

    from cede.types import Partitioner

DELEGATE_ID = "EnnBackend"


class Chipset(str, Enum):
    """The chips that ExecuTorch's compiler knows (`SamsungChipset`)."""

    E9955 = "E9955"
    E9965 = "E9965"


@dataclass(frozen=True, kw_only=True)
class EnnOptions:
    """Options of the ENN backend.

    Attributes:
        chipset: the chip to compile for: E9955 or E9965.
    """

    chipset: Chipset = Chipset.E9955


def _stock(options: EnnOptions) -> Any:
    from executorch.backends.samsung.partition.enn_partitioner import EnnPartitioner
    from executorch.backends.samsung.serialization.compile_options import (
        gen_samsung_backend_compile_spec,
    )

    return EnnPartitioner([gen_samsung_backend_compile_spec(options.chipset.value)])


def _register() -> None:
    import executorch.backends.samsung.enn_preprocess  # noqa: F401


def available() -> Availability:
    """Its Python module is built against Samsung's SDK and comes in no wheel."""
    why = run = None
    if not shipped("backends/samsung/python/PyEnnWrapperAdaptor*"):
        why = (
            "this executorch is built without Samsung's compiler: build it from source with the"
            " Exynos AI LiteCore SDK"
        )
    if not is_linked(DELEGATE_ID):
        run = "ExecuTorch's runtime here is built without ENN: run the program on the device"
    return Availability(claim=why, lower=why, run=run)


@hookimpl
def cede_partitioners() -> Iterator[Partitioner]:
    """The stock partitioner."""
    yield Adopted(name="enn", backend="enn", delegate_id=DELEGATE_ID, make=_stock)


@hookimpl
def cede_backends() -> Iterator[Backend]:
    """Samsung's NPU."""
    yield Backend(
        name="enn",
        delegate_id=DELEGATE_ID,
        available=available,
        register=_register,
        options=EnnOptions,
    )
