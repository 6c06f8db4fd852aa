"""The memory that an emitted program plans, read from ExecuTorch's own memory plan."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch

from cede.reporting.memory import LargeValue, MemoryUse
from cede.reporting.tables import quantity

if TYPE_CHECKING:
    from collections.abc import Iterable

    from executorch.exir import ExecutorchProgramManager

SHOWN = 5


def memory_use(executorch: ExecutorchProgramManager, method: str = "forward") -> MemoryUse:
    """What the arenas of a method take, and what the example's sizes would.

    Args:
        executorch: an emitted program; its nodes carry the specs that the planner filled in.
        method: which of its methods.
    """
    plans = {plan.name: plan for plan in executorch.executorch_program.execution_plan}
    planned = sum(plans[method].non_const_buffer_sizes or ())
    program = executorch.exported_program(method)
    values: dict[tuple[Any, ...], tuple[Any, torch.Tensor, str]] = {}
    for module in program.graph_module.modules():
        if not isinstance(module, torch.fx.GraphModule):
            continue
        for node in module.graph.nodes:
            spec, value = node.meta.get("spec"), node.meta.get("val")
            if isinstance(value, torch.Tensor) and getattr(spec, "mem_id", None) is not None:
                # The node that computes a value comes after the one that allocates it.
                place = (spec.mem_id, spec.mem_offset, *spec.lifetime)
                values[place] = (spec, value, node.name)
    large = sorted(values.values(), key=lambda entry: -int(entry[0].allocated_memory))
    return MemoryUse(
        planned=planned,
        live=_peak((spec.lifetime, int(spec.allocated_memory)) for spec, _, _ in values.values()),
        example_live=_peak((spec.lifetime, _example(value)) for spec, value, _ in values.values()),
        largest=tuple(
            LargeValue(
                op=name,
                tensor=f"{str(value.dtype).removeprefix('torch.')}"
                f"[{','.join(str(size) for size in value.shape)}]",
                bytes=int(spec.allocated_memory),
                example_bytes=_example(value),
            )
            for spec, value, name in large[:SHOWN]
        ),
        symbols=tuple(_symbols(*large[0][:2])) if large else (),
    )


def told(use: MemoryUse) -> tuple[str, ...]:
    """A warning where upper bounds cost far more than the example needs."""
    if not use.steep:
        return ()
    first = use.largest[0]
    text = (
        f"the program plans {quantity(use.planned, 'B')} for the values of a call, whatever their"
        f" sizes; the example's sizes need {quantity(use.example_live, 'B')}. The largest is"
        f" {first.op}, {first.tensor}, of {quantity(first.bytes, 'B')} ({'; '.join(use.symbols)})."
        " Lower the upper bound in dynamic_shapes if calls never come near it."
    )
    return (text,)


def _example(value: torch.Tensor) -> int:
    count: int = value.element_size()
    for size in value.shape:
        hint = size.node.hint if isinstance(size, torch.SymInt) else size
        count *= int(hint) if hint is not None else 0
    return count


def _peak(intervals: Iterable[tuple[Any, int]]) -> int:
    """Most bytes alive at one time; a lifetime holds both of its ends."""
    changes: dict[int, int] = {}
    for (begin, end), size in intervals:
        changes[begin] = changes.get(begin, 0) + size
        changes[end + 1] = changes.get(end + 1, 0) - size
    most = now = 0
    for at in sorted(changes):
        now += changes[at]
        most = max(most, now)
    return most


def _symbols(spec: Any, value: Any) -> list[str]:
    found = {
        str(size): f"{size}: {size.node.hint} of at most {int(bound)}"
        for size, bound in zip(value.shape, spec.shape, strict=True)
        if isinstance(size, torch.SymInt)
    }
    return list(found.values())
