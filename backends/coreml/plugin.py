"""Core ML's records."""

from __future__ import annotations

from typing import TYPE_CHECKING

from cede.backends.coreml.here import DELEGATE_ID, available
from cede.backends.coreml.options import CoreMLOptions, compile_specs
from cede.backends.coreml.partitioner import CoreMLPartitioner
from cede.backends.coreml.quantizer import QUANTIZERS
from cede.backends.coreml.vetoes import wrong
from cede.hookspec import hookimpl
from cede.types import Backend

if TYPE_CHECKING:
    from collections.abc import Iterator

    from cede.types import Partitioner, Quantizer


@hookimpl
def cede_partitioners() -> Iterator[Partitioner]:
    """The stock partitioner, minus what its delegate gets wrong."""
    yield CoreMLPartitioner()


@hookimpl
def cede_quantizers() -> Iterator[Quantizer]:
    """How its programs are annotated for int8."""
    yield from QUANTIZERS


@hookimpl
def cede_backends() -> Iterator[Backend]:
    """Core ML: lowered on Linux and macOS, run on Apple's systems."""
    yield Backend(
        name="coreml",
        delegate_id=DELEGATE_ID,
        available=available,
        register=_register,
        compile_specs=compile_specs,
        options=CoreMLOptions,
        quantizers=tuple(each.name for each in QUANTIZERS),
        objects=wrong,
    )


def _register() -> None:
    import executorch.backends.apple.coreml.compiler  # noqa: F401
