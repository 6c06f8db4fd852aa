"""XNNPACK's records: the stock partitioner adopted, with vetoes where its delegate is wrong."""

from __future__ import annotations

from dataclasses import dataclass
from importlib.resources import files
from typing import TYPE_CHECKING, Any

from cede.backends.xnnpack.implicit import Implicit, read_outside
from cede.backends.xnnpack.quantizer import FOUR_BITS, QUANTIZER
from cede.backends.xnnpack.vetoes import (
    approximate_gelu,
    grouped_weight,
    holds,
    integer_data,
    is_prelu_of_other_rank,
    is_weight_only,
    lost_dequantize,
    prelu_rank,
    returned_clone,
    shared_constant,
    weight_only,
    wrong,
)
from cede.backends.xnnpack.weights import WeightOnly
from cede.costs import read_rates
from cede.hookspec import hookimpl
from cede.partitioners.adopt import Adopted
from cede.partitioners.rules import Vetoed
from cede.types import Backend

if TYPE_CHECKING:
    from collections.abc import Iterator
    from contextlib import AbstractContextManager

    from cede.types import Partitioner, Quantizer, Rates


@dataclass(frozen=True, kw_only=True)
class XnnpackOptions:
    """Options of the stock partitioner.

    Attributes:
        enable_bf16: also claim bfloat16 ops (needs a runtime built for it).
    """

    enable_bf16: bool = False


def _stock(options: XnnpackOptions) -> Any:
    from executorch.backends.xnnpack.partition.xnnpack_partitioner import XnnpackPartitioner

    return XnnpackPartitioner(enable_bf16=options.enable_bf16)


def _register() -> None:
    import executorch.backends.xnnpack.xnnpack_preprocess  # noqa: F401


def _shortcuts() -> AbstractContextManager[None]:
    from cede.backends.xnnpack.shortcuts import shortcuts

    return shortcuts()


def _rates() -> Rates:
    return read_rates(files("cede.backends.xnnpack") / "rates.yaml")


@hookimpl
def cede_partitioners() -> Iterator[Partitioner]:
    """The stock partitioner, minus what its delegate computes wrongly, plus weight-only linear."""
    adopted = Adopted(name="xnnpack", backend="xnnpack", delegate_id="XnnpackBackend", make=_stock)
    stock = Vetoed(
        inner=Implicit(inner=adopted),
        vetoes=(
            weight_only,
            grouped_weight,
            integer_data,
            lost_dequantize,
            prelu_rank,
            read_outside,
            returned_clone,
            shared_constant,
            approximate_gelu,
        ),
        keep_unless=lambda node: is_weight_only(node) or is_prelu_of_other_rank(node),
    )
    yield WeightOnly(inner=stock)


@hookimpl
def cede_quantizers() -> Iterator[Quantizer]:
    """How its programs are annotated for int8."""
    yield QUANTIZER
    yield FOUR_BITS


@hookimpl
def cede_backends() -> Iterator[Backend]:
    """The CPU delegate that comes in ExecuTorch's wheel."""
    yield Backend(
        name="xnnpack",
        delegate_id="XnnpackBackend",
        register=_register,
        rates=_rates,
        options=XnnpackOptions,
        quantizers=("xnnpack", "xnnpack_qc4"),
        pure=True,
        objects=wrong,
        holds=holds,
        shortcuts=_shortcuts,
    )
