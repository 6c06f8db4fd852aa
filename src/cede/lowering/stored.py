"""Which constants a lowered program stores, and how often, looked up in its bytes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import torch
from executorch.exir.lowered_backend_module import LoweredBackendModule

from cede.constants import constants, value_of
from cede.lowering.copies import PROGRAM, Places, of_emitted
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
    held = [*_held(edge, delegates, _names(source))]
    return _several(held, of_emitted(executorch, delegates, once), graph)


def stored_by_methods(
    edges: Sequence[ExportedProgram], plans: Sequence[Plan]
) -> tuple[SharedConstant, ...]:
    """As `stored`, of the methods of a program that ExecuTorch's own steps will emit.

    Args:
        edges: the edge programs with their delegates, one a method.
        plans: one for each; the facts of the last one tell the ops that read a constant.
    """
    held: list[_Held] = []
    delegates: dict[str, LoweredBackendModule] = {}
    for number, (edge, plan) in enumerate(zip(edges, plans, strict=True), 1):
        where = f"method {number} " if len(edges) > 1 else ""
        own = {f"{where}{id}": module for id, module in _delegates(edge, plan)}
        written = set(edge.graph_signature.buffers_to_mutate.values())
        held += [each for each in _held(edge, own, _names(edge)) if each.name not in written]
        delegates |= own
    stores = [module.named_data_store_output for module in delegates.values()]
    places = Places(
        delegates,
        [_raw(each.value) for each in held if each.holder == PROGRAM],
        named=[data for store in stores if store is not None for data in store.buffers],
    )
    graph = plans[-1].graph
    assert graph is not None  # noqa: S101  (a plan made by a partitioner has its graph)
    return _several(held, places, graph)


def _several(all_held: list[_Held], places: Places, graph: OpGraph) -> tuple[SharedConstant, ...]:
    found = []
    for group in _equal(all_held):
        raw = _raw(group[0].value)
        names = tuple(dict.fromkeys(held.name for held in group))
        holders = tuple(dict.fromkeys(held.holder for held in group))
        copies, sure = places.copies(raw, holders)
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


def told_twice(found: Sequence[SharedConstant], script: bool = False) -> tuple[str, ...]:
    """A warning where copies that are known take more than a little.

    Args:
        found: what `stored` gave.
        script: whether an export script emits the program by ExecuTorch's own steps.
    """
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
    if script and any(PROGRAM in one.holders for one in twice):
        text += " Between a delegate and ops outside, cede.store_once(program) leaves one of both."
    return (text,)


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
