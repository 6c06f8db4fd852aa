"""What operators of torchao give for fake tensors, computed once for equal shapes.

They are written in Python over a dozen operators each, all of which run for every node that a trace
visits. torch keeps such results for its own operators alone (`FakeTensorMode._validate_cache_key`).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any
from weakref import WeakKeyDictionary

import torch
from torch._subclasses.fake_tensor import FakeTensor, FakeTensorMode

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from cede.lowering.inside_executorch.patching import Patch

_NAMESPACES = ("torchao", "EDGE_DO_NOT_DECOMP")
_PLAIN = (int, float, bool, str, type(None), torch.dtype, torch.device, torch.layout)

_known: WeakKeyDictionary[FakeTensorMode, dict[Any, tuple[_Made, ...] | None]] = WeakKeyDictionary()


class _Unknown(Exception):
    """A call whose outcome is not kept."""


@dataclass(frozen=True, slots=True)
class _Made:
    """A new contiguous tensor.

    Attributes:
        sizes: a number each, or which size of which tensor given: (tensor, dimension).
        alone: whether it is the only result, in no tuple.
    """

    sizes: tuple[int | tuple[int, int], ...]
    dtype: torch.dtype
    device: torch.device
    alone: bool


def _dispatched(stock: Callable[..., Any]) -> Callable[..., Any]:
    def dispatch(self: FakeTensorMode, func: Any, types: Any, args: Any, kwargs: Any) -> Any:
        if not _is_pure(func):
            return stock(self, func, types, args, kwargs)
        tensors: list[FakeTensor] = []
        try:
            key = (func, _key((args, sorted(kwargs.items())), tensors))
        except _Unknown:
            return stock(self, func, types, args, kwargs)
        known = _known.setdefault(self, {})
        if (made := known.get(key)) is not None:
            return _again(self, made, tensors)
        result = stock(self, func, types, args, kwargs)
        if key not in known:
            known[key] = _kept(self, result, tensors)
        return result

    return dispatch


def _is_pure(func: Any) -> bool:
    """Whether an operator is one of those, writes nothing and gives no view."""
    if not isinstance(func, torch._ops.OpOverload) or func.namespace not in _NAMESPACES:
        return False
    schema = func._schema
    return not schema.is_mutable and all(each.alias_info is None for each in schema.returns)


def _key(given: Any, tensors: list[FakeTensor]) -> Any:
    if isinstance(given, FakeTensor):
        if given.constant is not None or given.layout is not torch.strided:
            raise _Unknown
        if not given.is_contiguous() or given.storage_offset() != 0:
            raise _Unknown
        tensors.append(given)
        return "tensor", _layout(given), given.dtype, given.device, given.requires_grad
    if isinstance(given, tuple | list):
        return type(given), *(_key(each, tensors) for each in given)
    if isinstance(given, _PLAIN):
        return type(given), given
    raise _Unknown


def _layout(given: torch.Tensor) -> tuple[Any, ...]:
    """Sizes and strides: a dimension of size 1 may have any stride in a contiguous tensor."""
    numbers: tuple[Any, ...] = (*given.shape, *given.stride())
    return tuple(each if isinstance(each, int) else _expression(each) for each in numbers)


def _expression(size: Any) -> Any:
    return size.node.expr


def _kept(
    mode: FakeTensorMode, result: Any, tensors: Sequence[FakeTensor]
) -> tuple[_Made, ...] | None:
    """How to make it again, None where that can't be told."""
    alone = isinstance(result, FakeTensor)
    results = (result,) if alone else result
    made = []
    for each in results:
        if not isinstance(each, FakeTensor) or each.requires_grad or not each.is_contiguous():
            return None
        storage = each.untyped_storage()._cdata
        if any(storage == given.untyped_storage()._cdata for given in tensors):
            return None
        try:
            sizes = tuple(_place(size, tensors) for size in each.shape)
        except _Unknown:
            return None
        made.append(_Made(sizes, each.dtype, each.device, alone))
    again = _again(mode, made, tensors) if made else ()
    same = zip(results, (again,) if alone else again, strict=True)
    return tuple(made) if all(_layout(a) == _layout(b) for a, b in same) else None


def _place(size: Any, tensors: Sequence[FakeTensor]) -> int | tuple[int, int]:
    if isinstance(size, int):
        return size
    for i, given in enumerate(tensors):
        for j, other in enumerate(given.shape):
            if not isinstance(other, int) and _expression(other) == _expression(size):
                return i, j
    raise _Unknown


def _again(mode: FakeTensorMode, made: Sequence[_Made], tensors: Sequence[FakeTensor]) -> Any:
    results = []
    with mode:
        for each in made:
            sizes = [
                size if isinstance(size, int) else tensors[size[0]].shape[size[1]]
                for size in each.sizes
            ]
            results.append(torch.empty(sizes, dtype=each.dtype, device=each.device))
    return results[0] if made[0].alone else tuple(results)


def forget() -> None:
    """Let go of all results."""
    _known.clear()


def patches() -> list[Patch]:
    """Where fake tensors find out what an operator gives."""
    return [(FakeTensorMode, "_cached_dispatch_impl", _dispatched)]
