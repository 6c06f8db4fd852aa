"""Lowering: a plan becomes an ExecuTorch program."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from cede.lowering.inside_executorch.imports import import_executorch

import_executorch()  # before anything else here imports it

from executorch.exir import to_edge_transform_and_lower  # noqa: E402

from cede.errors import CedeError, PlanError  # noqa: E402
from cede.lowering.borders import left_quantized, unlike  # noqa: E402
from cede.lowering.contest import settled  # noqa: E402
from cede.lowering.emit import Lowered, emit  # noqa: E402
from cede.lowering.failing import Failure, until_compiled  # noqa: E402
from cede.lowering.partition import KeptUnclaimed, PlanPartitioner  # noqa: E402
from cede.lowering.policed import insist_on  # noqa: E402
from cede.lowering.quick import quickly  # noqa: E402
from cede.lowering.scout import scout, until_claimed  # noqa: E402
from cede.lowering.sizes import compile_config  # noqa: E402
from cede.lowering.upstream import CompileError, upstream_error  # noqa: E402

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

    from executorch.exir import EdgeProgramManager
    from torch.export import ExportedProgram

    from cede.config import Config
    from cede.host import Host
    from cede.planning import Plan

__all__ = [
    "Lowered",
    "PlanPartitioner",
    "insist_on",
    "lower_edge",
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
) -> Lowered:
    """Plan (or follow a plan), compile the delegates and emit.

    `metadata` become methods of the program that return these constants.

    Raises:
        PlanError: the plan was made for another program.
        PolicyError: the plan does not meet the config's policy.
        LoweringError: a review found an error, a delegate failed to compile, or an op that was
            left has no kernel.
    """
    with quickly(host, config) as said:
        edge, partitioner = lower_edge(program, host, config, options, replay, metadata)
        plan = partitioner.plan
        if plan is None or plan.graph is None:
            raise PlanError("ExecuTorch did not ask for a partition")
        notes = [*partitioner.notes, *(f.message for f in host.lowered(plan, edge))]
        notes += [*unlike(plan, plan.graph), *left_quantized(plan, plan.graph), *said]
        return emit(edge, plan, plan.graph, program, tuple(notes))


def lower_edge(
    program: ExportedProgram,
    host: Host,
    config: Config,
    options: Mapping[str, Any],
    replay: Plan | None = None,
    metadata: Mapping[str, Any] | None = None,
) -> tuple[EdgeProgramManager, PlanPartitioner]:
    """As `lower_program`, without emission: the edge program with its delegates."""

    failures: list[Failure] = []

    def attempt(
        dropped: Collection[str], plan: Plan | None = replay
    ) -> tuple[Any, PlanPartitioner]:
        partitioner = PlanPartitioner(
            host, config, options, replay=plan, dropped=dropped, retries=True, failures=failures
        )
        try:
            edge = to_edge_transform_and_lower(
                program,
                partitioner=[partitioner],
                compile_config=compile_config(program),
                constant_methods=dict(metadata) if metadata else None,
            )
            return edge, partitioner
        except (CedeError, KeptUnclaimed):
            raise
        except Exception as error:
            raise upstream_error("lower the program", error, partitioner.plan) from error

    def compiles(plan: Plan, id: str) -> bool | None:
        try:
            attempt((), plan)
        except CompileError as error:
            return error.given.id != id
        except CedeError:
            return None
        return True

    with quickly(host, config):
        if replay is not None or config.lowering.failed == "error":
            return until_claimed(attempt)
        return until_compiled(lambda: until_claimed(attempt), compiles, failures)
