"""CUDA's records: the stock partitioner, which takes whatever is left, adopted."""

from __future__ import annotations

from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

from cede.hookspec import hookimpl
from cede.partitioners.adopt import Adopted
from cede.running.linked import is_linked, shipped
from cede.types import Availability, Backend

if TYPE_CHECKING:
    from collections.abc import Iterator

    from cede.types import Partitioner

DELEGATE_ID = "CudaBackend"


@dataclass(frozen=True, kw_only=True)
class CudaOptions:
    """Options of the CUDA backend.

    Attributes:
        method: the method that is lowered; the compiled code is named after it.
    """

    method: str = "forward"


def _stock(options: CudaOptions) -> Any:
    from executorch.backends.cuda.cuda_backend import CudaBackend
    from executorch.backends.cuda.cuda_partitioner import CudaPartitioner

    return CudaPartitioner([CudaBackend.generate_method_name_compile_spec(options.method)])


def _register() -> None:
    import executorch.backends.cuda.cuda_backend  # noqa: F401


def available() -> Availability:
    """Deciding imports Triton; compiling needs the GPU and a torch that was built for it."""
    claim = run = None
    if find_spec("triton") is None:
        claim = "there is no triton here: install a CUDA build of torch, which brings it"
    if not shipped("backends/cuda/cuda_partitioner.py"):
        claim = "this executorch comes without its CUDA compiler: install executorch>=1.5.1"
    lower = claim
    if lower is None and not _torch_has_cuda():
        lower = "this torch is built without CUDA: install a CUDA build of torch"
    if lower is None and not Path("/dev/nvidiactl").exists():
        lower = "there is no NVIDIA GPU here: lower the program on a machine with one"
    if not is_linked(DELEGATE_ID):
        run = (
            "ExecuTorch's runtime here is built without CUDA: build executorch with"
            " EXECUTORCH_BUILD_CUDA=ON"
        )
    return Availability(claim=claim, lower=lower, run=run)


def _torch_has_cuda() -> bool:
    found = find_spec("torch")
    folders = found.submodule_search_locations if found is not None else None
    return any(any(Path(folder, "lib").glob("*torch_cuda*")) for folder in folders or ())


@hookimpl
def cede_partitioners() -> Iterator[Partitioner]:
    """The stock partitioner: every op, in as few delegates as there can be."""
    yield Adopted(name="cuda", backend="cuda", delegate_id=DELEGATE_ID, make=_stock)


@hookimpl
def cede_backends() -> Iterator[Backend]:
    """NVIDIA GPUs."""
    yield Backend(
        name="cuda",
        delegate_id=DELEGATE_ID,
        available=available,
        register=_register,
        options=CudaOptions,
    )
