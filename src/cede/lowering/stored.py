"""Which constants a lowered program stores, and how often, looked up in its bytes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import torch
from executorch.exir.lowered_backend_module import LoweredBackendModule

from cede.constants import constants, value_of
from cede.reporting.content import SharedConstant
from cede.reporting.tables import quantity
from cede.running.single import given_to

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from executorch.exir import ExecutorchProgramManager
    from torch.export import ExportedProgram

    from cede.planning import Plan
    from cede.types import OpGraph

LEAST = 64
"""Bytes of a constant; smaller ones are scalars and short vectors that many ops have."""

TOLD = 4096
"""Bytes in further copies that are worth a warning."""

PROGRAM = "the program"


@dataclass(frozen=True, slots=True, kw_only=True)
class _Held:
    """One constant of one holder: a delegate, or the ops outside of all."""

    name: str
    holder: str
    value: torch.Tensor


def stored(
    executorch: ExecutorchProgramManager,
    edge: ExportedProgram,
    source: ExportedProgram,
    plan: Plan,
    graph: OpGraph,
    once: bool,
) -> tuple[SharedConstant, ...]:
    """Constants of equal content with several holders or copies, most further bytes first.

    Args:
        executorch: the emitted program.
        edge: the edge program with its delegates.
        source: the exported program, whose names are told.
        plan: that it was lowered by.
        graph: its facts.
        once: whether named data that equals a constant of the program lies over it.
    """
    delegates = dict(_delegates(edge, plan))
    file = _File(executorch, delegates, once)
    found = []
    for group in _equal([*_held(edge, delegates, _names(source))]):
        raw = _raw(group[0].value)
        names = tuple(dict.fromkeys(held.name for held in group))
        holders = tuple(dict.fromkeys(held.holder for held in group))
        copies, sure = file.copies(raw, holders)
        if len(holders) < 2 and copies < 2 and sure:
            continue
        found.append(
            SharedConstant(
                name=names[0],
                same=names[1:],
                tensor=_told(group[0].value),
                bytes=len(raw),
                holders=holders,
                ops=_readers(names, graph),
                copies=copies if sure else None,
            )
        )
    return tuple(sorted(found, key=lambda one: -one.extra_bytes))


def told_views(source: ExportedProgram) -> tuple[str, ...]:
    """A warning where constants lie over each other in memory: each is stored by itself."""
    storages: dict[int, dict[tuple[Any, ...], tuple[str, torch.Tensor]]] = {}
    for target in constants(source).values():
        value = value_of(source, target)
        if type(value) is torch.Tensor and value.layout is torch.strided and value.numel():
            at = value.untyped_storage().data_ptr()
            storages.setdefault(at, {}).setdefault(_place(value), (target, value))
    lines = []
    for views in storages.values():
        values = [value for _, value in views.values()]
        extra = sum(value.nbytes for value in values) - values[0].untyped_storage().nbytes()
        if len(views) > 1 and extra >= TOLD:
            names = ", ".join(target for target, _ in views.values())
            lines.append(
                f"{names} are views of one tensor, and each is stored by itself:"
                f" {quantity(extra, 'B')} more in the file. Compute them in the model's forward."
            )
    return tuple(lines)


def told_twice(found: Sequence[SharedConstant]) -> tuple[str, ...]:
    """A warning where copies that are known take more than a little."""
    twice = [one for one in found if one.copies is not None and one.copies > 1]
    extra = sum(one.extra_bytes for one in twice)
    if extra < TOLD:
        return ()
    first = ", ".join(
        f"{one.name} {one.copies} times ({'; '.join(one.holders)})" for one in twice[:3]
    )
    more = f" and {len(twice) - 3} more" if len(twice) > 3 else ""
    text = (
        f"{quantity(extra, 'B')} of constants are stored more than once: {first}{more}. Give their"
        " readers to one backend that writes named data, or to one delegate."
    )
    return (text,)


class _File:
    """Where the bytes of constants lie in an emitted program."""

    def __init__(
        self,
        executorch: ExecutorchProgramManager,
        delegates: dict[str, LoweredBackendModule],
        once: bool,
    ) -> None:
        emitted, named = executorch._emitter_output, executorch._named_data
        inside = [each.storage for each in emitted.program.constant_buffer]
        outside = list(emitted.external_constant_buffer or ())
        self._constants = _by_size([*inside, *outside])
        self._initial = _by_size([each.storage for each in emitted.mutable_data or ()])
        self._named = _by_size(list(named.buffers) if named is not None else [])
        self._payloads = {
            holder: bytes(module.processed_bytes) for holder, module in delegates.items()
        }
        self._delegates, self._once = delegates, once

    def copies(self, raw: bytes, holders: Sequence[str]) -> tuple[int, bool]:
        """How often a constant is stored for its holders, and whether that is certain.

        Some compilers store a form of their own, which is not found.
        """
        size = len(raw)
        plain = PROGRAM in holders and raw in self._constants.get(size, ())
        initial = PROGRAM in holders and raw in self._initial.get(size, ())
        named = raw in self._named.get(size, ())
        payloads, other = self._in_payloads(raw, holders)
        sure = not other or named or bool(self._common(other, size))
        # named data that equals a constant of the program lies over it
        beside = other and not (named and plain and self._once)
        return int(plain) + int(initial) + payloads + int(bool(beside)), sure

    def _in_payloads(self, raw: bytes, holders: Sequence[str]) -> tuple[int, list[str]]:
        """How often it lies in their payloads, and the delegates that have it elsewhere."""
        found, other = 0, []
        seen: set[bytes] = set()
        for holder in holders:
            payload = self._payloads.get(holder)
            if payload is None:
                continue
            often = _count(payload, raw)
            if not often:
                other.append(holder)
            elif payload not in seen:  # equal payloads are stored once
                seen.add(payload)
                found += often
        return found, other

    def _common(self, holders: Sequence[str], size: int) -> set[str]:
        """Keys of named data of that size that all of these delegates have: the same, laid out."""
        keys = [
            {
                key
                for key, entry in store.pte_data.items()
                if len(store.buffers[entry.buffer_index]) == size
            }
            if (store := self._delegates[holder].named_data_store_output) is not None
            else set()
            for holder in holders
        ]
        return set.intersection(*keys)


def _count(payload: bytes, raw: bytes) -> int:
    if len(payload) < len(raw):
        return 0
    if raw.count(raw[:1]) == len(raw):  # any run of zeros has it many times
        return int(raw in payload)
    return payload.count(raw)


def _by_size(blobs: list[Any]) -> dict[int, list[bytes]]:
    found: dict[int, list[bytes]] = {}
    for blob in blobs:
        if isinstance(blob, bytes):
            found.setdefault(len(blob), []).append(blob)
    return found


def _delegates(edge: ExportedProgram, plan: Plan) -> Iterator[tuple[str, LoweredBackendModule]]:
    owner = plan.delegation_of()
    for _, module in edge.graph_module.named_modules():
        if isinstance(module, LoweredBackendModule) and (given := given_to(module, owner)):
            yield given.id, module


def _names(source: ExportedProgram) -> dict[tuple[Any, ...], str]:
    """The names of tensors by where they lie."""
    found: dict[tuple[Any, ...], str] = {}
    for target in constants(source).values():
        value = value_of(source, target)
        found.setdefault(_place(value), target)
    return found


def _place(value: torch.Tensor) -> tuple[Any, ...]:
    return value.data_ptr(), value.dtype, tuple(value.shape)


def _held(
    edge: ExportedProgram,
    delegates: dict[str, LoweredBackendModule],
    names: dict[tuple[Any, ...], str],
) -> Iterator[_Held]:
    used = {node.name for node in edge.graph.nodes if node.op == "placeholder" and node.users}
    programs = {PROGRAM: edge} | {id: given.original_module for id, given in delegates.items()}
    for holder, program in programs.items():
        for name, target in constants(program).items():
            if program is edge and name not in used:
                continue
            value = value_of(program, target)
            if type(value) is torch.Tensor and value.layout is torch.strided:
                told = names.get(_place(value), target)
                yield _Held(name=told, holder=holder, value=value)


def _equal(all_held: list[_Held]) -> Iterator[list[_Held]]:
    """Those of equal bytes together, where there are at least two."""
    alike: dict[tuple[int, bytes], list[_Held]] = {}
    for held in all_held:
        size = held.value.numel() * held.value.element_size()
        if size >= LEAST:
            start = _raw(held.value.reshape(-1)[: LEAST // held.value.element_size()])
            alike.setdefault((size, start), []).append(held)
    for group in alike.values():
        while len(group) > 1:
            first, rest = group[0], group[1:]
            equal = [held for held in rest if _same(first.value, held.value)]
            if equal:
                yield [first, *equal]
            group = [held for held in rest if not any(held is each for each in equal)]


def _same(one: torch.Tensor, two: torch.Tensor) -> bool:
    return _place(one) == _place(two) or _raw(one) == _raw(two)


def _raw(value: torch.Tensor) -> bytes:
    return value.detach().contiguous().reshape(-1).view(torch.uint8).numpy().tobytes()


def _told(value: torch.Tensor) -> str:
    dtype = str(value.dtype).removeprefix("torch.")
    return f"{dtype}[{','.join(map(str, value.shape))}]"


def _readers(names: Sequence[str], graph: OpGraph) -> tuple[str, ...]:
    found: list[str] = []
    for given in graph.inputs:
        if given.constant and (given.target or given.id) in names:
            found += [op for op in graph.users(given.id) if not graph.op(op).branches]
    return tuple(dict.fromkeys(found))
