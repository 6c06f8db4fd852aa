"""A lowered program, emitted just now or before."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Protocol

from cede.errors import ConfigError
from cede.files import write_together
from cede.reporting import Report, make_report

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from executorch.exir import ExecutorchProgramManager
    from torch.export import ExportedProgram

    from cede.costs import Timing
    from cede.planning import Plan
    from cede.reporting import MemoryUse
    from cede.reporting.content import SharedConstant
    from cede.running.pte import Pte
    from cede.types import OpGraph


class Emission(Protocol):
    """What came out of lowering."""

    @property
    def source(self) -> ExportedProgram:
        """The exported program."""
        ...

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

    @property
    def weights(self) -> bytes:
        """The bytes of the `.ptd`, b"" where there is none."""
        ...

    @property
    def adapters(self) -> bytes:
        """The bytes of an adapter's own `.ptd`, b"" where there is none."""
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
        memory: what it plans for the values of a call.
        constants: those with several holders or copies.
        warnings: what the user should know, beyond the plan's own.
        emission: what came out of lowering.
    """

    plan: Plan
    graph: OpGraph
    memory: MemoryUse
    emission: Emission = field(repr=False)
    constants: tuple[SharedConstant, ...] = ()
    warnings: tuple[str, ...] = ()

    @property
    def source(self) -> ExportedProgram:
        """The exported program it was made from."""
        return self.emission.source

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

    @property
    def weights(self) -> bytes:
        """The bytes of the `.ptd`, b"" where there is none."""
        return self.emission.weights

    @property
    def adapters(self) -> bytes:
        """The bytes of an adapter's own `.ptd`, b"" where there is none."""
        return self.emission.adapters

    @property
    def pte(self) -> Pte:
        """The program and its weights, parsed: what `cede.running.load` takes."""
        from cede.running.pte import read
        from cede.running.weights import merged

        files = {"its weights": self.weights, "its adapter": self.adapters}
        held = {name: data for name, data in files.items() if data}
        return read(self.buffer, weights=merged(held) if held else None)

    def save(
        self,
        path: Path | str,
        weights: Path | str | None = None,
        *,
        adapters: Path | str | None = None,
        beside: Mapping[Path, bytes] | None = None,
    ) -> None:
        """Write the `.pte`, and each `.ptd` if there is one: whole, all or none.

        Args:
            path: of the `.pte`.
            weights: of the `.ptd`; None is the same name with that suffix.
            adapters: of an adapter's own `.ptd`; None is the same name with `.adapter.ptd`.
            beside: more files, such as a report, which are written with them or not at all.

        Raises:
            ConfigError: a path for weights that stand in the `.pte`.
            LoweringError: a file can't be written.
        """
        from pathlib import Path

        program, held = Path(path), self.weights
        if weights is not None and not held:
            raise ConfigError(
                f"{weights}: the constants stand in the program; lower it with"
                " lowering.external_weights=true"
            )
        files = {**(beside or {}), program: self.buffer}
        if held:
            files[Path(weights) if weights is not None else program.with_suffix(".ptd")] = held
        if apart := self.adapters:
            files[Path(adapters or program.with_suffix(".adapter.ptd"))] = apart
        write_together(files)

    def report(self, timing: Timing | None = None) -> Report:
        """The per-op delegation table, with what `cede.bench` measured if that is given."""
        return make_report(self.plan, self.graph, timing, self.memory, stored=self.constants)
