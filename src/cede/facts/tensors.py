"""Tensor facts from the fake values that `torch.export` leaves on each node."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch

from cede.types import TensorFact

if TYPE_CHECKING:
    from collections.abc import Mapping

    from cede.types import Dim

UNBOUNDED = 2**40
"""torch.export writes "no bound" as infinity or as a very large number."""

_SYMBOLIC = {torch.SymInt: "SymInt", torch.SymFloat: "SymFloat", torch.SymBool: "SymBool"}
_PLAIN = {bool: "SymBool", int: "SymInt", float: "SymFloat"}


def facts_of(value: Any, bounds: Mapping[str, Any]) -> tuple[TensorFact, ...]:
    """The tensors of a node's value, flattened one level.

    Args:
        value: `node.meta["val"]`.
        bounds: from a symbol's name to its `ValueRanges`.
    """
    values = value if isinstance(value, (tuple, list)) else (value,)
    found = (fact_of(each, bounds) for each in values)
    return tuple(fact for fact in found if fact is not None)


def fact_of(value: Any, bounds: Mapping[str, Any]) -> TensorFact | None:
    """The fact of one tensor or number, None for anything else."""
    if isinstance(value, torch.Tensor):
        sizes = upper_sizes(value.shape, bounds)
        count = 1
        for size in sizes:
            count *= size
        return TensorFact(
            shape=tuple(_dim(size) for size in value.shape),
            dtype=str(value.dtype).removeprefix("torch."),
            nbytes=count * value.element_size(),
            dim_order=_dim_order(value),
        )
    for kind, name in (*_SYMBOLIC.items(), *_PLAIN.items()):
        if isinstance(value, kind):
            return TensorFact(shape=(), dtype=name, nbytes=8)
    return None


def upper_sizes(shape: Any, bounds: Mapping[str, Any]) -> tuple[int, ...]:
    """Sizes as numbers: symbolic ones at their upper bound, or the example where there is none."""
    return tuple(_upper(size, bounds) for size in shape)


def whole(value: Any) -> int | None:
    """A bound as a number, None for infinity."""
    if isinstance(value, int):
        return value
    return int(value) if getattr(value, "is_Integer", False) else None


def _dim(size: Any) -> Dim:
    return str(size.node.expr) if isinstance(size, torch.SymInt) else int(size)


def _upper(size: Any, bounds: Mapping[str, Any]) -> int:
    if not isinstance(size, torch.SymInt):
        return int(size)
    from torch.utils._sympy.value_ranges import bound_sympy

    expr = size.node.expr
    ranges = {symbol: bounds[str(symbol)] for symbol in expr.free_symbols if str(symbol) in bounds}
    upper = whole(bound_sympy(expr, ranges).upper) if ranges else None
    if upper is not None and upper < UNBOUNDED:
        return upper
    hint = size.node.hint if size.node.has_hint() else None
    return int(hint) if hint is not None else 1


def _dim_order(value: torch.Tensor) -> tuple[int, ...]:
    if value.layout is not torch.strided:
        return ()
    try:
        return tuple(value.dim_order())
    except (RuntimeError, TypeError):  # strides that depend on a symbol
        return tuple(range(value.dim()))
