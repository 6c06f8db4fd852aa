"""The records of the reference backend."""

from __future__ import annotations

from dataclasses import dataclass
from importlib.resources import files
from typing import TYPE_CHECKING

from cede.backends.reference.partitioner import ReferencePartitioner
from cede.costs import read_rates
from cede.hookspec import hookimpl
from cede.types import Backend

if TYPE_CHECKING:
    from collections.abc import Iterator

    from cede.types import LoadedProgram, Partitioner, Rates


@dataclass(frozen=True, kw_only=True)
class ReferenceOptions:
    """Options of the reference backend.

    Attributes:
        exact: keep ops whole instead of decomposing them, so that the program gives eager's
            numbers to the last bit. Leave it off beside another backend, whose own ops would then
            not be decomposed either.
    """

    exact: bool = False


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
        options=ReferenceOptions,
        register=_register,
        rates=_rates,
        load=_load,
        encodings=("*",),  # the operator's own kernel decodes
    )


def _rates() -> Rates:
    return read_rates(files("cede.backends.reference") / "rates.yaml")


def _register() -> None:
    from cede.backends.reference import compiler  # noqa: F401


def _load(data: bytes) -> LoadedProgram:
    from cede.backends.reference.runner import load

    return load(data)
