"""The records of Metal through AOTInductor: the stock partitioner adopted."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from cede.hookspec import hookimpl
from cede.partitioners.adopt import Adopted
from cede.running.linked import is_linked, shipped
from cede.types import Availability, Backend

if TYPE_CHECKING:
    from collections.abc import Iterator

    from cede.types import Partitioner

NAME = "metal-aoti"
DELEGATE_ID = "MetalBackend"


@dataclass(frozen=True, kw_only=True)
class MetalAotiOptions:
    """Options of Metal through AOTInductor.

    Attributes:
        method: the method that is lowered; the compiled code is named after it.
    """

    method: str = "forward"


def _stock(options: MetalAotiOptions) -> Any:
    from executorch.backends.apple.metal.metal_backend import MetalBackend
    from executorch.backends.apple.metal.metal_partitioner import MetalPartitioner

    return MetalPartitioner([MetalBackend.generate_method_name_compile_spec(options.method)])


def _register() -> None:
    import executorch.backends.apple.metal.metal_backend  # noqa: F401


def available() -> Availability:
    """Deciding works anywhere, for it takes every op; compiling needs Apple's GPU."""
    claim = lower = run = None
    if not shipped("backends/apple/metal/metal_partitioner.py"):
        claim = lower = "this executorch comes without it: install executorch>=1.5.1"
    elif sys.platform != "darwin":
        lower = f"it compiles for the GPU of a Mac, this is {sys.platform}: lower the program there"
    if not is_linked(DELEGATE_ID):
        run = (
            "ExecuTorch's runtime here is built without it: on a Mac, build executorch with"
            " EXECUTORCH_BUILD_METAL=ON"
        )
    return Availability(claim=claim, lower=lower, run=run)


@hookimpl
def cede_partitioners() -> Iterator[Partitioner]:
    """The stock partitioner: every op, in as few delegates as there can be."""
    yield Adopted(name=NAME, backend=NAME, delegate_id=DELEGATE_ID, make=_stock)


@hookimpl
def cede_backends() -> Iterator[Backend]:
    """Apple GPUs, through AOTInductor."""
    yield Backend(
        name=NAME,
        delegate_id=DELEGATE_ID,
        available=available,
        register=_register,
        options=MetalAotiOptions,
    )
