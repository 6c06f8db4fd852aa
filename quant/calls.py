"""Calls of a model: what each is given, and running one so that no input is written into."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeAlias

import torch
from torch.utils import _pytree as pytree

from cede.types import Inputs, inputs_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

Call: TypeAlias = "Inputs | Mapping[str, Any] | Sequence[Any] | torch.Tensor"
"""`Inputs`; keyword inputs; positional ones; or the one input there is."""


def all_inputs(calls: Iterable[Call] | None, kwargs: Mapping[str, Any] | None) -> list[Inputs]:
    """What each call is given."""
    return [inputs_of(call, kwargs) for call in calls or ()]


def leaves(model: torch.nn.Module, call: Inputs) -> list[Any]:
    """The flat results of a model, which may write into its inputs: they are copies."""
    with torch.no_grad():
        args, kwargs = pytree.tree_map_only(
            torch.Tensor, torch.clone, (call.args, dict(call.kwargs))
        )
        return list(pytree.tree_leaves(model(*args, **kwargs)))


def floats(model: torch.nn.Module, call: Inputs) -> torch.Tensor:
    """All floating-point results of a model, flat, float64."""
    found = [
        value.detach().double().flatten()
        for value in leaves(model, call)
        if torch.is_tensor(value) and value.is_floating_point()
    ]
    return torch.cat(found) if found else torch.zeros(0, dtype=torch.float64)
