"""Neutron's records: NXP's stock partitioner adopted, its clusters whole."""

from __future__ import annotations

from dataclasses import dataclass
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

from cede.hookspec import hookimpl
from cede.partitioners.adopt import Adopted
from cede.partitioners.adopt.join import joined
from cede.running.linked import is_linked, shipped
from cede.types import Availability, Backend, Claim, Refusal

if TYPE_CHECKING:
    from collections.abc import Iterator

    from cede.types import Keep, Partitioner, Program

DELEGATE_ID = "NeutronBackend"


@dataclass(frozen=True, kw_only=True)
class NeutronOptions:
    """Options of the Neutron backend.

    Attributes:
        target: the microcontroller to compile for, as NXP's converter names it.
    """

    target: str = "imxrt700"


class NeutronPartitioner:
    """The stock partitioner's groups, each whole: it looks at them for what it takes."""

    name = backend = "neutron"

    def __init__(self) -> None:
        self._adopted = Adopted(
            name=self.name,
            backend=self.backend,
            delegate_id=DELEGATE_ID,
            make=_stock,
            grouped=True,
        )

    def keeps(self, program: Program) -> Keep:
        """What the stock partitioner wants whole."""
        return self._adopted.keeps(program)

    def claim(self, program: Program) -> Iterator[Claim | Refusal]:
        """One indivisible claim per group, a refusal for every other op."""
        answers = list(self._adopted.claim(program))
        claims = [answer for answer in answers if isinstance(answer, Claim)]
        yield from joined(claims, [claim.ops for claim in claims], program.graph)
        yield from (answer for answer in answers if isinstance(answer, Refusal))


def _stock(options: NeutronOptions) -> Any:
    from executorch.backends.nxp import neutron_partitioner as nxp
    from executorch.backends.nxp.backend.neutron_target_spec import NeutronTargetSpec
    from executorch.backends.nxp.nxp_backend import generate_neutron_compile_spec

    specs = generate_neutron_compile_spec(options.target)
    return nxp.NeutronPartitioner(specs, NeutronTargetSpec(options.target))


def _register() -> None:
    import executorch.backends.nxp.nxp_backend  # noqa: F401


def available() -> Availability:
    """NXP's converter decides and compiles."""
    why = run = None
    if find_spec("eiq_neutron_sdk") is None:
        why = "there is no eiq_neutron_sdk here: install NXP's eIQ Neutron SDK for Python"
    if not shipped("backends/nxp/neutron_partitioner.py"):
        why = "this executorch comes without NXP's partitioner: install executorch>=1.5.1"
    if not is_linked(DELEGATE_ID):
        run = "ExecuTorch's runtime here is built without Neutron: run the program on the device"
    return Availability(claim=why, lower=why, run=run)


@hookimpl
def cede_partitioners() -> Iterator[Partitioner]:
    """The stock partitioner."""
    yield NeutronPartitioner()


@hookimpl
def cede_backends() -> Iterator[Backend]:
    """NXP's NPU, for quantized programs."""
    yield Backend(
        name="neutron",
        delegate_id=DELEGATE_ID,
        available=available,
        register=_register,
        options=NeutronOptions,
    )
