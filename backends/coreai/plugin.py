"""Core AI's records: the stock partitioner adopted."""

from __future__ import annotations

from dataclasses import dataclass
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

from cede.hookspec import hookimpl
from cede.partitioners.adopt import Adopted
from cede.running.linked import is_linked, shipped
from cede.types import Availability, Backend

if TYPE_CHECKING:
    from collections.abc import Iterator

    from cede.types import Partitioner

DELEGATE_ID = "CoreAIBackend"


@dataclass(frozen=True, kw_only=True)
class CoreAIOptions:
    """Options of the Core AI backend.

    Attributes:
        min_deployment_version: the oldest system that the program runs on; empty is Core AI's own.
    """

    min_deployment_version: str = ""


def _stock(options: CoreAIOptions) -> Any:
    from executorch.backends.apple.coreai.partition.partitioner import CoreAIPartitioner

    return CoreAIPartitioner(
        min_deployment_version=options.min_deployment_version or None,
        take_over_mutable_buffer=False,
    )


def _register() -> None:
    import executorch.backends.apple.coreai.compiler.preprocess  # noqa: F401


def available() -> Availability:
    """The tables of coreai-torch decide."""
    why = run = None
    if find_spec("coreai_torch") is None:
        why = "there is no coreai_torch here: pip install coreai-torch, of a release for this torch"
    if not shipped("backends/apple/coreai/partition"):
        why = "this executorch comes without its Core AI compiler: install executorch>=1.5.1"
    if not is_linked(DELEGATE_ID):
        run = "Core AI is part of Apple's systems: run the program there"
    return Availability(claim=why, lower=why, run=run)


@hookimpl
def cede_partitioners() -> Iterator[Partitioner]:
    """The stock partitioner."""
    yield Adopted(name="coreai", backend="coreai", delegate_id=DELEGATE_ID, make=_stock)


@hookimpl
def cede_backends() -> Iterator[Backend]:
    """Apple's systems."""
    yield Backend(
        name="coreai",
        delegate_id=DELEGATE_ID,
        available=available,
        register=_register,
        options=CoreAIOptions,
    )
