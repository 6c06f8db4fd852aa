"""OpenVINO's records: the stock partitioner adopted, with vetoes where its delegate is wrong."""

from __future__ import annotations

from dataclasses import dataclass, field
from importlib.resources import files
from typing import TYPE_CHECKING, Any

from cede.backends.openvino.bonds import Bonded
from cede.backends.openvino.extended import Extended
from cede.backends.openvino.installed import available
from cede.backends.openvino.operators import operator
from cede.backends.openvino.quantizer import FOUR_BITS, GROUPED, QUANTIZER
from cede.backends.openvino.review import weights_that_leave
from cede.backends.openvino.vetoes import (
    dtype,
    dynamic_shape,
    empty,
    layout,
    wide_integers,
    wrong,
)
from cede.costs import read_rates
from cede.hookspec import hookimpl
from cede.partitioners.adopt import Adopted
from cede.partitioners.rules import Vetoed
from cede.types import Backend

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from cede.planning import Plan
    from cede.types import Finding, OpGraph, Partitioner, Quantizer, Rates, Spec

PRECISIONS = ("f32", "bf16", "f16", "device")


def _check_precision(value: str) -> str:
    return "" if value in PRECISIONS else f"is {value!r}, must be one of {', '.join(PRECISIONS)}"


@dataclass(frozen=True, kw_only=True)
class OpenvinoOptions:
    """Options of OpenVINO.

    Attributes:
        device: OpenVINO's name of the device ("CPU", "GPU", "NPU"); it must be there when lowering,
            and when the program runs.
        precision: in which it computes float32: "f32", "bf16", "f16", or "device" for what the
            device finds fastest, which is bfloat16 on CPUs that have it.
    """

    device: str = "CPU"
    precision: str = field(default="f32", metadata={"check": _check_precision})


def _specs(options: OpenvinoOptions) -> Sequence[Spec]:
    from cede.backends.openvino.compiler import specs

    return specs(options.device, "" if options.precision == "device" else options.precision)


def _stock(options: OpenvinoOptions) -> Any:
    from executorch.backends.openvino.partitioner import OpenvinoPartitioner
    from executorch.exir.backend.compile_spec_schema import CompileSpec

    return OpenvinoPartitioner([CompileSpec(key, value) for key, value in _specs(options)])


def _register() -> None:
    from cede.backends.openvino.compiler import register

    register()


def _rates() -> Rates:
    return read_rates(files("cede.backends.openvino") / "rates.yaml")


@hookimpl
def cede_partitioners() -> Iterator[Partitioner]:
    """The stock partitioner, minus what its delegate computes wrongly."""
    stock = Adopted(name="openvino", backend="openvino", delegate_id="OpenvinoBackend", make=_stock)
    vetoes = (dynamic_shape, dtype, wide_integers, empty, layout, operator)
    yield Bonded(inner=Vetoed(inner=Extended(inner=stock, specs=_specs), vetoes=vetoes))


@hookimpl
def cede_quantizers() -> Iterator[Quantizer]:
    """How its programs are annotated for int8."""
    yield QUANTIZER
    yield FOUR_BITS
    yield from GROUPED


@hookimpl
def cede_review(plan: Plan, graph: OpGraph) -> Iterable[Finding]:
    """Errors where a quantized weight would leave a delegate."""
    return weights_that_leave(plan, graph)


@hookimpl
def cede_backends() -> Iterator[Backend]:
    """Intel's runtime, of the package `openvino`."""
    yield Backend(
        name="openvino",
        delegate_id="OpenvinoBackend",
        available=available,
        register=_register,
        rates=_rates,
        compile_specs=_specs,
        options=OpenvinoOptions,
        quantizers=(QUANTIZER.name, FOUR_BITS.name, *(each.name for each in GROUPED)),
        objects=wrong,
    )
