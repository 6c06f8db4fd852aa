"""Lowering: a plan becomes an ExecuTorch program."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from cede.lowering.inside_executorch.imports import import_executorch

import_executorch()  # before anything else here imports it

from executorch.exir import to_edge_transform_and_lower  # noqa: E402

from cede.errors import CedeError, PlanError  # noqa: E402
from cede.lowering.beyond_core import let_through  # noqa: E402
from cede.lowering.borders import left_quantized, unlike  # noqa: E402
from cede.lowering.contest import settled  # noqa: E402
from cede.lowering.emit import Part, emit  # noqa: E402
from cede.lowering.failing import Failure, until_compiled  # noqa: E402
from cede.lowering.inside_executorch.together import together  # noqa: E402
from cede.lowering.partition import KeptUnclaimed, PlanPartitioner  # noqa: E402
from cede.lowering.policed import insist_on  # noqa: E402
from cede.lowering.quick import quickly  # noqa: E402
from cede.lowering.scout import scout, until_claimed  # noqa: E402
from cede.lowering.upstream import CompileError, upstream_error  # noqa: E402
from cede.programs.lowered import Lowered  # noqa: E402

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

    from executorch.exir import EdgeCompileConfig, EdgeProgramManager
    from torch.export import ExportedProgram

    from cede.config import Config
    from cede.host import Host
    from cede.planning import Plan
    from cede.store import Store

__all__ = [
    "Lowered",
    "PlanPartitioner",
    "insist_on",
    "lower_edge",
    "lower_methods",
    "lower_program",
    "scout",
    "settled",
]


def lower_program(
    program: ExportedProgram,
    host: Host,
    config: Config,
    options: Mapping[str, Any],
    replay: Plan | None = None,
    metadata: Mapping[str, Any] | None = None,
    store: Store | None = None,
    *,
    etrecord: bool = False,
) -> Lowered:
    """Plan (or follow a plan), compile the delegates and emit.

    `metadata` become methods of the program that return these constants. `store` is that of
    `quickly`. With `etrecord` the emitted program has an ETRecord (`executorch.get_etrecord()`).

    Raises:
        PlanError: the plan was made for another program.
        PolicyError: the plan does not meet the config's policy.
        LoweringError: a review found an error, a delegate failed to compile, or an op that was
            left has no kernel.
    """
    with quickly(host, config, store) as said:
        edge, part = _part(program, host, config, options, replay, metadata, etrecord, said)
        return emit(edge, [part], config.lowering)[0]


def lower_methods(
    programs: Mapping[str, ExportedProgram],
    host: Host,
    config: Config,
    options: Mapping[str, Any],
    metadata: Mapping[str, Any] | None = None,
    store: Store | None = None,
    *,
    share_state: bool = False,
) -> dict[str, Lowered]:
    """As `lower_program`, of several programs that become the methods of one.

    Each is planned by itself. What several have of equal constants is stored once.

    Args:
        programs: by the names of the methods.
        host, config, options, metadata, store: as there.
        share_state: whether buffers of one name are one buffer, in the memory of all methods; a
            runtime that gives methods a memory together keeps what one of them wrote there.

    Raises:
        PolicyError, LoweringError: as there.
    """
    with quickly(host, config, store) as said:
        edges, parts = {}, []
        for name, program in programs.items():
            before = len(said)
            edge, part = _part(program, host, config, options, None, None, False, said)
            parts.append(replace(part, plan=replace(part.plan, method=name)))
            edges[name] = edge
            del said[before:]
        whole = together(edges, metadata)
        made = emit(whole, parts, config.lowering, share_state=share_state)
        return {part.plan.method: one for part, one in zip(parts, made, strict=True)}


def _part(
    program: ExportedProgram,
    host: Host,
    config: Config,
    options: Mapping[str, Any],
    replay: Plan | None,
    metadata: Mapping[str, Any] | None,
    etrecord: bool,
    said: list[str],
) -> tuple[EdgeProgramManager, Part]:
    """The edge program with its delegates, and what is emitted of it."""
    edge, partitioner = lower_edge(
        program, host, config, options, replay, metadata, etrecord=etrecord
    )
    plan = partitioner.plan
    if plan is None or plan.graph is None:
        raise PlanError("ExecuTorch did not ask for a partition")
    notes = [*partitioner.notes, *(f.message for f in host.lowered(plan, edge))]
    notes += [*unlike(plan, plan.graph), *left_quantized(plan, plan.graph), *said]
    # a plan to follow may be that of a method of another name
    plan = replace(plan, method=next(iter(edge.methods)))
    return edge, Part(plan=plan, source=program, notes=tuple(notes))


def lower_edge(
    program: ExportedProgram,
    host: Host,
    config: Config,
    options: Mapping[str, Any],
    replay: Plan | None = None,
    metadata: Mapping[str, Any] | None = None,
    *,
    etrecord: bool = False,
) -> tuple[EdgeProgramManager, PlanPartitioner]:
    """As `lower_program`, without emission: the edge program with its delegates."""

    lowering = _Attempts(program, host, config, options, metadata, etrecord)
    with quickly(host, config):
        if replay is not None or config.lowering.failed == "error":
            return until_claimed(lambda dropped: lowering.attempt(dropped, replay))
        return until_compiled(
            lambda: until_claimed(lowering.attempt), lowering.compiles, lowering.failures
        )


class _Attempts:
    """Attempts to lower one program; each heeds the failures that were found before."""

    def __init__(
        self,
        program: ExportedProgram,
        host: Host,
        config: Config,
        options: Mapping[str, Any],
        metadata: Mapping[str, Any] | None,
        etrecord: bool,
    ) -> None:
        self._program, self._host, self._config, self._options = program, host, config, options
        self._constants = dict(metadata) if metadata else None
        self._etrecord = etrecord
        self.failures: list[Failure] = []

    def attempt(
        self, dropped: Collection[str], replay: Plan | None = None
    ) -> tuple[EdgeProgramManager, PlanPartitioner]:
        """Lower it, without those ops kept whole; by a plan, if there is one."""
        made: list[PlanPartitioner] = []

        def convert(settings: EdgeCompileConfig, plain: bool) -> EdgeProgramManager:
            partitioner = PlanPartitioner(
                self._host, self._config, self._options, replay=replay, dropped=dropped,
                retries=True, failures=self.failures, plain=plain,
            )  # fmt: skip
            made.append(partitioner)
            return to_edge_transform_and_lower(
                self._program,
                partitioner=[partitioner],
                compile_config=settings,
                constant_methods=self._constants,
                generate_etrecord=self._etrecord,
            )

        try:
            edge = let_through(self._program, convert)
        except (CedeError, KeptUnclaimed):
            raise
        except Exception as error:
            raise upstream_error("lower the program", error, made[-1].plan) from error
        return edge, made[-1]

    def compiles(self, plan: Plan, id: str) -> bool | None:
        """Whether the delegate of that id in a plan does; None where something else fails."""
        try:
            self.attempt((), plan)
        except CompileError as error:
            return error.given.id != id
        except CedeError:
            return None
        return True
