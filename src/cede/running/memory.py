"""The memory of a program as its plan lays it out: arenas, constants and mutable buffers.

Tensors that share planned bytes share them here too, so a view that the emitter elided, an
operator made in-place and a buffer shared by two methods behave as in ExecuTorch's runtime. Each
has a storage of its own that begins where it lies: an operator that takes a storage offset means
one within the tensor.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import torch
from executorch.exir.tensor import get_scalar_type

from cede.errors import LoweringError
from cede.running.pte import schema
from cede.running.signature import strides_of

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from cede.running.pte import Pte

_PRIVATE = 1
"""The arena that each method has for itself; those above may hold state that methods share."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Slot:
    """Where one tensor value lives.

    Attributes:
        memory: 1-D tensor over its planned bytes, None for a tensor without planned memory.
        dtype: of its elements.
        sizes: its shape, the upper bound if `dynamic`.
        dim_order: dimensions, outermost first.
        dynamic: whether kernels may give it another shape.
    """

    memory: torch.Tensor | None
    dtype: torch.dtype
    sizes: tuple[int, ...]
    dim_order: tuple[int, ...]
    dynamic: bool

    def tensor(self, sizes: Sequence[int] | None = None) -> torch.Tensor:
        """A tensor of those sizes (or its own) over the slot's memory.

        Raises:
            LoweringError: the sizes need more memory than was planned.
        """
        sizes = self.sizes if sizes is None else tuple(sizes)
        strides = strides_of(sizes, self.dim_order)
        if self.memory is None:
            return torch.empty_strided(sizes, strides, dtype=self.dtype)
        self.check(sizes)
        return self.memory.as_strided(sizes, strides, self.memory.storage_offset())

    def check(self, sizes: Sequence[int]) -> None:
        """Whether the program can hold those sizes here. Raises LoweringError."""
        if not self.dynamic and tuple(sizes) != self.sizes:
            raise LoweringError(
                f"a tensor of shape {list(sizes)} where the program has {list(self.sizes)}"
            )
        if self.memory is not None and math.prod(sizes) > self.memory.numel():
            raise LoweringError(
                f"a tensor of shape {list(sizes)} needs more memory than the program planned for"
                f" {list(self.sizes)}; export with larger bounds"
            )

    def store(self, value: torch.Tensor) -> torch.Tensor:
        """Copy a value into the slot's memory, giving it the value's shape."""
        target = self.tensor(tuple(value.shape))
        if target.data_ptr() != value.data_ptr() or target.stride() != value.stride():
            target.copy_(value.clone() if _overlap(target, value) else value)
        return target


class Memory:
    """The arenas of a program, and its constants."""

    def __init__(self, pte: Pte) -> None:
        self._pte = pte
        self._constants: dict[int, torch.Tensor] = {}
        self._shared = _allocate(
            {
                i: max(plan.non_const_buffer_sizes[i] for plan in plans)
                for i, plans in _plans_by_arena(pte).items()
                if i > _PRIVATE
            }
        )

    def slots(self, plan: Any) -> dict[int, Slot]:
        """The tensors of a method, by value index; mutable buffers with their initial values."""
        sizes = dict(enumerate(plan.non_const_buffer_sizes or ()))
        arenas = self._shared | _allocate({i: size for i, size in sizes.items() if i == _PRIVATE})
        return {
            i: self._slot(value.val, arenas)
            for i, value in enumerate(plan.values)
            if isinstance(value.val, schema.Tensor)
        }

    def _slot(self, value: Any, arenas: Mapping[int, bytearray]) -> Slot:
        slot = Slot(
            memory=self._place(value, arenas),
            dtype=get_scalar_type(value.scalar_type),
            sizes=tuple(value.sizes or ()),
            dim_order=tuple(value.dim_order or ()),
            dynamic=value.shape_dynamism != schema.TensorShapeDynamism.STATIC,
        )
        if value.allocation_info is not None and value.data_buffer_idx and slot.memory is not None:
            initial = self._pte.mutable[value.data_buffer_idx]
            slot.memory.copy_(_bytes(initial, _nbytes(value)).view(slot.dtype))
        return slot

    def _place(self, value: Any, arenas: Mapping[int, bytearray]) -> torch.Tensor | None:
        dtype = get_scalar_type(value.scalar_type)
        info = value.allocation_info
        if info is not None:
            return _window(arenas[info.memory_id], _nbytes(value), info.memory_offset).view(dtype)
        external = value.extra_tensor_info
        if external is not None and external.location == schema.TensorDataLocation.EXTERNAL:
            return _bytes(self._external(external.fully_qualified_name), _nbytes(value)).view(dtype)
        if value.data_buffer_idx == 0:
            return None
        index = value.data_buffer_idx
        if index not in self._constants:
            storage = self._pte.program.constant_buffer[index].storage
            self._constants[index] = _bytes(bytes(storage), len(storage))
        return self._constants[index][: _nbytes(value)].view(dtype)

    def _external(self, name: str) -> bytes:
        if name not in self._pte.named:
            raise LoweringError(
                f"{self._pte.origin}: {name} stands in a data file (.ptd) that was not given"
            )
        return self._pte.named[name]


def _plans_by_arena(pte: Pte) -> dict[int, list[Any]]:
    found: dict[int, list[Any]] = {}
    for plan in pte.program.execution_plan:
        for i in range(len(plan.non_const_buffer_sizes or ())):
            found.setdefault(i, []).append(plan)
    return found


def _allocate(sizes: Mapping[int, int]) -> dict[int, bytearray]:
    return {i: bytearray(size) for i, size in sizes.items()}


def _nbytes(value: Any) -> int:
    count: int = get_scalar_type(value.scalar_type).itemsize
    for size in value.sizes or ():
        count *= size
    return count


def _bytes(data: bytes, count: int) -> torch.Tensor:
    # A bytearray: torch warns about memory that it may not write to.
    return _window(bytearray(data), count)


def _window(data: bytearray, count: int, begin: int = 0) -> torch.Tensor:
    if not count:
        return torch.empty(0, dtype=torch.uint8)
    return torch.frombuffer(data, dtype=torch.uint8, count=count, offset=begin)


def _overlap(first: torch.Tensor, second: torch.Tensor) -> bool:
    (begin, end), (other, last) = map(_extent, (first, second))
    return begin < last and other < end


def _extent(value: torch.Tensor) -> tuple[int, int]:
    storage = value.untyped_storage()
    return storage.data_ptr(), storage.data_ptr() + storage.nbytes()
