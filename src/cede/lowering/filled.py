"""Weights that are views of larger tensors."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch

if TYPE_CHECKING:
    from collections.abc import Mapping


def filled(held: Mapping[str, Any]) -> dict[str, Any]:
    """Values by name, each filling its storage: a view of a larger tensor is copied.

    A serializer of ExecuTorch (`node_visitor.py`, 1.5.1) writes the storage of a weight from its
    beginning, not the weight, and a deep copy keeps the views among buffers.
    """
    return {name: _copied(value) if _is_view(value) else value for name, value in held.items()}


def _is_view(value: Any) -> bool:
    if type(value) not in (torch.Tensor, torch.nn.Parameter) or value.layout is not torch.strided:
        return False
    return bool(value.storage_offset() or value.nbytes != value.untyped_storage().nbytes())


def _copied(value: torch.Tensor) -> torch.Tensor:
    made = value.detach().clone()
    if isinstance(value, torch.nn.Parameter):
        return torch.nn.Parameter(made, requires_grad=value.requires_grad)
    return made
