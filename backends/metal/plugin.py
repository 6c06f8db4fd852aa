"""The records of the Metal backend."""

from __future__ import annotations

from typing import TYPE_CHECKING

from cede.backends.metal.engines import MLX_ID, MetalOptions, available, delegate_for, specs_for
from cede.backends.metal.gguf import ENCODINGS
from cede.backends.metal.partitioner import MetalPartitioner
from cede.hookspec import hookimpl
from cede.types import Backend

if TYPE_CHECKING:
    from collections.abc import Iterator

    from cede.types import Partitioner


@hookimpl
def cede_partitioners() -> Iterator[Partitioner]:
    """The stock partitioner of the chosen engine."""
    yield MetalPartitioner()


@hookimpl
def cede_backends() -> Iterator[Backend]:
    """Apple's GPU: lowered on Linux and macOS, run on macOS and iOS."""
    yield Backend(
        name="metal",
        delegate_id=MLX_ID,
        delegate_for=delegate_for,
        available=available,
        compile_specs=specs_for,
        options=MetalOptions,
        encodings=ENCODINGS,
    )
