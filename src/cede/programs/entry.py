"""A lowered program as bytes of a cache entry, and back.

A length, that many bytes of the pickled records, the `.pte`, each `.ptd` if there is one. Only
records of cede are made of the pickle, so that no entry makes Python run anything else.
"""

from __future__ import annotations

import io
import pickle
import struct
from dataclasses import dataclass, is_dataclass
from enum import Enum
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from cede.planning import Plan
    from cede.programs.lowered import Lowered
    from cede.reporting import MemoryUse
    from cede.reporting.content import SharedConstant
    from cede.types import OpGraph

_SIZE = struct.Struct("<Q")


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """What is kept of a lowered program; as in `Lowered`.

    Attributes:
        plan, graph, memory, constants, warnings: as there.
        beside: records that were kept with it.
        data: the `.pte`.
        weights, adapters: each `.ptd`, empty for none.
    """

    plan: Plan
    graph: OpGraph
    memory: MemoryUse
    constants: tuple[SharedConstant, ...]
    warnings: tuple[str, ...]
    beside: tuple[Any, ...]
    data: memoryview
    weights: memoryview
    adapters: memoryview


def write(lowered: Lowered, beside: tuple[Any, ...] = ()) -> tuple[bytes, ...]:
    """The parts of an entry. `beside` are records of cede, and plain values."""
    data, weights = lowered.buffer, lowered.weights
    told = (lowered.memory, lowered.constants, lowered.warnings, beside)
    sizes = len(data), len(weights)
    head = pickle.dumps((lowered.plan, lowered.graph, *told, *sizes), protocol=4)
    return _SIZE.pack(len(head)), head, data, weights, lowered.adapters


def read(data: memoryview) -> Entry:
    """An entry. Raises `pickle.UnpicklingError` or what its records raise where it is none."""
    (size,) = _SIZE.unpack_from(data)
    at = _SIZE.size + size
    plan, graph, memory, constants, warnings, beside, length, more = _Records(
        io.BytesIO(data[_SIZE.size : at])
    ).load()
    return Entry(
        plan=plan, graph=graph, memory=memory, constants=constants, warnings=warnings,
        beside=beside, data=data[at : at + length], weights=data[at + length :][:more],
        adapters=data[at + length + more :],
    )  # fmt: skip


class _Records(pickle.Unpickler):
    def find_class(self, module: str, name: str) -> Any:
        if module.startswith("cede."):
            found = super().find_class(module, name)
            if isinstance(found, type) and (is_dataclass(found) or issubclass(found, Enum)):
                return found
        raise pickle.UnpicklingError(f"{module}.{name} is no record of cede")
