"""Operators of a program, in eager torch.

Semantics follow ExecuTorch's emitter (`exir/emit/_emitter.py`): a kernel call carries every
argument of the out-variant's schema in order, then the values that it returns.
"""

from __future__ import annotations

import math
import operator
from typing import TYPE_CHECKING, Any

import torch

from cede.errors import LoweringError
from cede.running.libraries import advice
from cede.running.signature import strides_of

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

PRIMS: Mapping[str, Callable[..., Any]] = {
    "add": operator.add,
    "sub": operator.sub,
    "mul": operator.mul,
    "floordiv": operator.floordiv,
    "truediv": operator.truediv,
    "mod": operator.mod,
    "neg": operator.neg,
    "eq": operator.eq,
    "gt": operator.gt,
    "lt": operator.lt,
    "ge": operator.ge,
    "le": operator.le,
    "sym_float": float,
    "sym_int": int,
    "sym_max": max,
    "sym_min": min,
    "sym_not": operator.not_,
    "sym_ite": lambda condition, yes, no: yes if condition else no,
    "ceil": math.ceil,
    "round": round,
    "trunc": math.trunc,
}
"""The arithmetic of ExecuTorch's `executorch_prim` namespace on symbolic numbers."""


def resolve(name: str, origin: str) -> Any:
    """The torch operator of that name. Raises LoweringError for one that isn't registered."""
    namespace, _, rest = name.partition("::")
    base, _, overload = rest.partition(".")
    try:
        return getattr(getattr(getattr(torch.ops, namespace), base), overload or "default")
    except (AttributeError, RuntimeError):
        raise LoweringError(f"{origin}: no kernel for operator {name}; {advice(name)}") from None


def restride(value: torch.Tensor, dim_order: tuple[int, ...]) -> torch.Tensor:
    """Put a kernel's result into the layout that the program planned, in the same memory."""
    strides = strides_of(value.shape, dim_order)
    if value.stride() == strides or value.numel() == 0:
        return value
    # torch ignores strides of sizes 1; only a layout that really differs is copied.
    target = value.as_strided(value.shape, strides, value.storage_offset())
    if any(
        size > 1 and old != new
        for size, old, new in zip(value.shape, value.stride(), strides, strict=True)
    ):
        target.copy_(value.clone())
    return target


def append(target: torch.Tensor, value: torch.Tensor, index: int) -> torch.Tensor:
    """`executorch_prim::et_copy_index`: write a slice, growing the first dimension to hold it."""
    sizes = (index + 1, *value.shape)
    strides = strides_of(sizes, range(len(sizes)))
    grown = target.as_strided(sizes, strides, target.storage_offset())
    grown[index].copy_(value)
    return grown
