"""Files of named tensors in ExecuTorch's own form (`.ptd`, `extension/flat_tensor`)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from cede.errors import CheckpointError

if TYPE_CHECKING:
    from pathlib import Path

    from torch import Tensor


def read_flat(path: Path) -> dict[str, Tensor]:
    """The tensors of a file, by name.

    Raises:
        CheckpointError: damage, or data that are no tensors (a backend's own).
    """
    from cede.running.weights import flat_tensors

    try:
        held = flat_tensors(path.read_bytes())
    except (OSError, ValueError) as error:
        first = (str(error).splitlines() or [""])[0]
        raise CheckpointError(f"{path}: can't be read as a .ptd file: {first}") from error
    made: dict[str, Tensor] = {}
    for name, entry in held.named_data.items():
        if entry.tensor_layout is None:
            raise CheckpointError(f"{path}: {name} is no tensor, but data of a backend")
        made[name] = _tensor(bytes(held.buffers[entry.buffer_index]), entry.tensor_layout)
    return made


def _tensor(data: bytes, layout: Any) -> Tensor:
    import torch
    from executorch.exir.tensor import get_scalar_type

    flat = torch.frombuffer(bytearray(data), dtype=get_scalar_type(layout.scalar_type))
    order = list(layout.dim_order)
    lying = flat.reshape([layout.sizes[dim] for dim in order])
    return lying.permute([order.index(dim) for dim in range(len(order))])
