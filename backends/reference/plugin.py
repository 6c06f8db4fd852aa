"""The records of the reference backend."""

from __future__ import annotations

from typing import TYPE_CHECKING

from cede.backends.reference.partitioner import ReferencePartitioner
from cede.hookspec import hookimpl
from cede.types import Backend

if TYPE_CHECKING:
    from collections.abc import Iterator

    from cede.types import LoadedProgram, Partitioner


@hookimpl
def cede_partitioners() -> Iterator[Partitioner]:
    """The partitioner that claims everything."""
    yield ReferencePartitioner()


@hookimpl
def cede_backends() -> Iterator[Backend]:
    """The backend that runs in eager torch."""
    yield Backend(
        name="reference",
        delegate_id="CedeReferenceBackend",
        register=_register,
        load=_load,
    )


def _register() -> None:
    from cede.backends.reference import compiler  # noqa: F401


def _load(data: bytes) -> LoadedProgram:
    from cede.backends.reference.runner import load

    return load(data)
