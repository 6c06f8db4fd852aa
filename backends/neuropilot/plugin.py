"""NeuroPilot's records: MediaTek's stock partitioner adopted."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

from cede.hookspec import hookimpl
from cede.partitioners.adopt import Adopted
from cede.running.linked import is_linked, shipped
from cede.types import Availability, Backend

if TYPE_CHECKING:
    from collections.abc import Iterator

    from cede.types import Partitioner

DELEGATE_ID = "NeuropilotBackend"


class Platform(str, Enum):
    """The chips that ExecuTorch's compiler knows."""

    mt6989 = "mt6989"
    mt6991 = "mt6991"
    mt6993 = "mt6993"


@dataclass(frozen=True, kw_only=True)
class NeuropilotOptions:
    """Options of the NeuroPilot backend.

    Attributes:
        platform: the chip to compile for: mt6989, mt6991 or mt6993.
    """

    platform: Platform = Platform.mt6989


def _stock(options: NeuropilotOptions) -> Any:
    from executorch.backends.mediatek.partitioner import NeuropilotPartitioner
    from executorch.exir.backend.compile_spec_schema import CompileSpec

    return NeuropilotPartitioner([CompileSpec("platform-config", options.platform.value.encode())])


def _register() -> None:
    import executorch.backends.mediatek.preprocess  # noqa: F401


def available() -> Availability:
    """MediaTek's converter and compiler are wheels of its SDK."""
    why = run = None
    absent = [name for name in ("mtk_converter", "mtk_neuron") if find_spec(name) is None]
    if absent:
        why = (
            f"there is no {' and no '.join(absent)} here: install the wheels of MediaTek's"
            " NeuroPilot Express SDK"
        )
    if not shipped("backends/mediatek/partitioner.py"):
        why = "this executorch comes without MediaTek's partitioner: install executorch>=1.5.1"
    if not is_linked(DELEGATE_ID):
        run = "ExecuTorch's runtime here is built without NeuroPilot: run the program on the device"
    return Availability(claim=why, lower=why, run=run)


@hookimpl
def cede_partitioners() -> Iterator[Partitioner]:
    """The stock partitioner."""
    yield Adopted(name="neuropilot", backend="neuropilot", delegate_id=DELEGATE_ID, make=_stock)


@hookimpl
def cede_backends() -> Iterator[Backend]:
    """MediaTek's NPU."""
    yield Backend(
        name="neuropilot",
        delegate_id=DELEGATE_ID,
        available=available,
        register=_register,
        options=NeuropilotOptions,
    )
