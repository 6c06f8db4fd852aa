"""What a method takes and gives, and whether given inputs fit."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import torch
from executorch.exir.tensor import get_scalar_type

from cede.errors import LoweringError
from cede.running.pte import Pte, schema

if TYPE_CHECKING:
    from collections.abc import Sequence

_NUMBERS = {"Int": int, "Double": float, "Bool": bool, "String": str, "Null": type(None)}


@dataclass(frozen=True, slots=True, kw_only=True)
class ValueMeta:
    """One input or output of a method.

    Attributes:
        dtype: of a tensor; None for a number.
        shape: of a tensor; its upper bound if `dynamic`.
        dim_order: of a tensor, outermost dimension first.
        dynamic: whether the sizes may be smaller than `shape`.
        number: the Python type of a number, None for a tensor.
    """

    dtype: torch.dtype | None = None
    shape: tuple[int, ...] = ()
    dim_order: tuple[int, ...] = ()
    dynamic: bool = False
    number: type | None = None

    def __str__(self) -> str:
        if self.number is not None:
            return "None" if self.number is type(None) else self.number.__name__
        return _tensor_text(self.dtype, self.shape)


@dataclass(frozen=True, slots=True, kw_only=True)
class Signature:
    """The flat inputs and outputs of one method."""

    method: str
    inputs: tuple[ValueMeta, ...]
    outputs: tuple[ValueMeta, ...]


def signature_of(pte: Pte, method: str = "forward") -> Signature:
    """Read a method's signature. Raises LoweringError for a method that is not there."""
    plan = pte.plan(method)
    return Signature(
        method=method,
        inputs=tuple(_meta(plan.values[i].val) for i in plan.inputs),
        outputs=tuple(_meta(plan.values[i].val) for i in plan.outputs),
    )


def strides_of(sizes: Sequence[int], dim_order: Sequence[int]) -> tuple[int, ...]:
    """Strides, in elements, of a dense tensor with its dimensions laid out in that order."""
    strides = [0] * len(sizes)
    step = 1
    for dim in reversed(dim_order):
        strides[dim] = step
        step *= max(sizes[dim], 1)
    return tuple(strides)


def fit(signature: Signature, inputs: Sequence[Any], origin: str) -> list[Any]:
    """Check flat inputs and lay them out in memory as the method expects.

    Args:
        signature: of the method.
        inputs: tensors and numbers, in order.
        origin: what error messages call the program.

    Returns:
        The inputs; a tensor in another memory layout is copied.

    Raises:
        LoweringError: a wrong number of inputs, or one of another type, dtype or shape.
    """
    where = f"{origin}: {signature.method}"
    if len(inputs) != len(signature.inputs):
        raise LoweringError(
            f"{where} takes {len(signature.inputs)} inputs"
            f" ({', '.join(map(str, signature.inputs)) or 'none'}), {len(inputs)} given"
        )
    return [
        _fit_one(meta, value, f"{where} input {i}")
        for i, (meta, value) in enumerate(zip(signature.inputs, inputs, strict=True))
    ]


def _fit_one(meta: ValueMeta, value: Any, where: str) -> Any:
    if meta.number is not None:
        if isinstance(value, torch.Tensor) or not _is_number(value, meta.number):
            raise LoweringError(f"{where}: {_text(value)} given, {meta} expected")
        return float(value) if meta.number is float else value
    if not isinstance(value, torch.Tensor):
        raise LoweringError(f"{where}: {_text(value)} given, {meta} expected")
    shape = tuple(value.shape)
    fits = len(shape) == len(meta.shape) and (
        all(size <= bound for size, bound in zip(shape, meta.shape, strict=True))
        if meta.dynamic
        else shape == meta.shape
    )
    if value.dtype != meta.dtype or not fits:
        limit = "at most " if meta.dynamic else ""
        raise LoweringError(f"{where}: {_text(value)} given, {limit}{meta} expected")
    return laid_out(value.detach(), meta.dim_order)


def laid_out(value: torch.Tensor, dim_order: Sequence[int]) -> torch.Tensor:
    """The same tensor, copied if its memory isn't dense in that order."""
    strides = strides_of(value.shape, dim_order)
    if value.stride() == strides:
        return value
    copy = torch.empty_strided(tuple(value.shape), strides, dtype=value.dtype)
    return copy.copy_(value)


def _is_number(value: Any, number: type) -> bool:
    if number is float:
        return isinstance(value, int | float) and not isinstance(value, bool)
    return type(value) is number


def _meta(value: Any) -> ValueMeta:
    if not isinstance(value, schema.Tensor):
        return ValueMeta(number=_NUMBERS.get(type(value).__name__, object))
    return ValueMeta(
        dtype=get_scalar_type(value.scalar_type),
        shape=tuple(value.sizes or ()),
        dim_order=tuple(value.dim_order or ()),
        dynamic=value.shape_dynamism != schema.TensorShapeDynamism.STATIC,
    )


def _text(value: Any) -> str:
    if isinstance(value, torch.Tensor):
        return _tensor_text(value.dtype, tuple(value.shape))
    return type(value).__name__ if value is not None else "None"


def _tensor_text(dtype: torch.dtype | None, shape: tuple[int, ...]) -> str:
    return f"{str(dtype).removeprefix('torch.')}[{', '.join(map(str, shape))}]"
