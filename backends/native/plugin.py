"""The native backend's records: the stock partitioner adopted."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from cede.hookspec import hookimpl
from cede.partitioners.adopt import Adopted
from cede.running.linked import is_linked, shipped
from cede.types import Availability, Backend, NoOptions

if TYPE_CHECKING:
    from collections.abc import Iterator

    from cede.types import Partitioner

DELEGATE_ID = "NativeBackend"


def _stock(options: NoOptions) -> Any:
    from executorch.backends.native.partitioner import NativePartitioner

    # Weights go into the .pte, not into a file beside it.
    return NativePartitioner(external_constants_tag=None)


def _register() -> None:
    import executorch.backends.native.preprocess  # noqa: F401


def available() -> Availability:
    """Deciding and lowering are Python only; no wheel has the runtime."""
    why = run = None
    if not shipped("backends/native/partitioner.py"):
        why = "this executorch comes without its native backend: install executorch>=1.5.1"
    if not is_linked(DELEGATE_ID):
        run = (
            "ExecuTorch's runtime here is built without its native backend: build executorch from"
            " source with it"
        )
    return Availability(claim=why, lower=why, run=run)


@hookimpl
def cede_partitioners() -> Iterator[Partitioner]:
    """The stock partitioner: core ATen ops."""
    yield Adopted(name="native", backend="native", delegate_id=DELEGATE_ID, make=_stock)


@hookimpl
def cede_backends() -> Iterator[Backend]:
    """ExecuTorch's own graph runtime."""
    yield Backend(name="native", delegate_id=DELEGATE_ID, available=available, register=_register)
