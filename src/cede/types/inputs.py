"""What a call is given."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True, slots=True, kw_only=True)
class Inputs:
    """The inputs of a call, positional and by keyword, as the model's `forward` takes them."""

    args: tuple[Any, ...] = ()
    kwargs: Mapping[str, Any] = field(default_factory=dict)


def inputs_of(call: Any, kwargs: Mapping[str, Any] | None = None) -> Inputs:
    """What a call is given.

    Args:
        call: `Inputs`, keyword inputs, positional ones, or the one input there is.
        kwargs: keyword inputs, for a call that has positional ones alone.
    """
    if isinstance(call, Inputs):
        return call
    if isinstance(call, Mapping):
        return Inputs(kwargs=dict(call))
    args = tuple(call) if isinstance(call, Sequence) else (call,)
    return Inputs(args=args, kwargs=dict(kwargs or {}))
