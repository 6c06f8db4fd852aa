"""A lowered program, emitted just now or before."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Protocol

from cede.files import write_whole
from cede.reporting import Report, make_report

if TYPE_CHECKING:
    from pathlib import Path

    from executorch.exir import ExecutorchProgramManager
    from torch.export import ExportedProgram

    from cede.costs import Timing
    from cede.planning import Plan
    from cede.reporting import MemoryUse
    from cede.types import OpGraph


class Emission(Protocol):
    """What came out of lowering."""

    @property
    def edge(self) -> ExportedProgram:
        """The edge program with its delegates, before emission."""
        ...

    @property
    def executorch(self) -> ExecutorchProgramManager:
        """The emitted program."""
        ...

    @property
    def buffer(self) -> bytes:
        """The bytes of the `.pte`."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Lowered:
    """A lowered program.

    Where it was taken from the cache, it is lowered anew, with its delegates from there, for who
    asks for `edge` or `executorch`: comparing with eager and measuring do. Both raise LoweringError
    where that gives another plan.

    Attributes:
        plan: what was lowered.
        graph: the facts of the edge program.
        source: the exported program it was made from.
        memory: what it plans for the values of a call.
        warnings: what the user should know, beyond the plan's own.
        emission: what came out of lowering.
    """

    plan: Plan
    graph: OpGraph
    source: ExportedProgram
    memory: MemoryUse
    emission: Emission = field(repr=False)
    warnings: tuple[str, ...] = ()

    @property
    def edge(self) -> ExportedProgram:
        """The edge program with its delegates, before emission."""
        return self.emission.edge

    @property
    def executorch(self) -> ExecutorchProgramManager:
        """The emitted program."""
        return self.emission.executorch

    @property
    def buffer(self) -> bytes:
        """The bytes of the `.pte`."""
        return self.emission.buffer

    def save(self, path: Path | str) -> None:
        """Write the `.pte`, whole or not at all."""
        from pathlib import Path

        write_whole(Path(path), self.buffer)

    def report(self, timing: Timing | None = None) -> Report:
        """The per-op delegation table, with what `cede.bench` measured if that is given."""
        return make_report(self.plan, self.graph, timing, self.memory)
