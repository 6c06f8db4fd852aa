"""What a program holds between calls, and the memory that it plans for the values of a call."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from cede.types import InputKind

if TYPE_CHECKING:
    from cede.planning import Plan
    from cede.types import Delegation, GraphInput, OpGraph

STEEP = 8
"""Planned memory of this many times what the example needs is worth a warning."""

SMALL = 1 << 24
"""And so many bytes of it are not, whatever the example needs."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StateTotal:
    """One buffer, or one input, that a call writes.

    Attributes:
        name: the buffer's qualified name, or the input's.
        kind: "buffer" or "input".
        tensor: dtype and shape.
        bytes: of the tensor, at the upper bound of its sizes.
        initial: "kept": the first call sees the value that the module had; "the caller's" of an
            input.
        owner: id of the delegate that holds all its reads and the op that makes the new value,
            "" where several do, or an op that was left does.
        written: id of the op whose value is copied back at the end of a call.
    """

    name: str
    kind: str
    tensor: str
    bytes: int
    initial: str
    owner: str
    written: str


@dataclass(frozen=True, slots=True, kw_only=True)
class LargeValue:
    """One of the largest values of a call: its op, bytes at the bounds and for the example."""

    op: str
    tensor: str
    bytes: int
    example_bytes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class MemoryUse:
    """Memory for the values of a call outside of delegates, as the program plans it.

    Attributes:
        planned: bytes of the arenas, taken whatever the sizes of a call are.
        live: most bytes that are in use at one time, all sizes at their upper bounds.
        example_live: the same for the sizes of the example.
        largest: values, largest first.
        symbols: the symbolic sizes of the largest value, with those of the example and the bounds
            ("s0: 64 of at most 4096").
    """

    planned: int
    live: int
    example_live: int
    largest: tuple[LargeValue, ...] = ()
    symbols: tuple[str, ...] = ()

    @property
    def steep(self) -> bool:
        """Whether upper bounds cost far more memory than the example needs."""
        return self.planned > SMALL and self.live > STEEP * max(self.example_live, 1)


def states(plan: Plan, graph: OpGraph) -> tuple[StateTotal, ...]:
    """What a program writes beyond its outputs, in the order of the program's inputs."""
    owners = plan.delegation_of()
    new = dict(graph.mutations)
    found = []
    for given in graph.inputs:
        name = given.target or given.id
        if not given.mutated or name not in new:
            continue
        buffer = given.kind is not InputKind.USER
        tensor = given.tensor
        found.append(
            StateTotal(
                name=name,
                kind="buffer" if buffer else "input",
                tensor=str(tensor) if tensor is not None else "",
                bytes=tensor.nbytes if tensor is not None else 0,
                initial="kept" if buffer else "the caller's",
                owner=_owner(given, new[name], graph, owners),
                written=new[name],
            )
        )
    return tuple(found)


def _owner(given: GraphInput, written: str, graph: OpGraph, owners: dict[str, Delegation]) -> str:
    """Id of the delegate that has all ops of a state, "" where none has."""
    involved = {*graph.users(given.id), written} - {given.id}
    held = {owners[op].id if op in owners else "" for op in involved if op in graph}
    return held.pop() if len(held) == 1 else ""
