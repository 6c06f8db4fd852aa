"""Planning without compiling: lowering is entered and left as soon as there is a plan."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, TypeVar

from executorch.exir import to_edge_transform_and_lower

from cede.errors import CedeError, PlanError
from cede.lowering.beyond_core import let_through
from cede.lowering.partition import KeptUnclaimed, PlanPartitioner, Scouted
from cede.lowering.quick import quickly
from cede.lowering.upstream import upstream_error

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping

    from executorch.exir import EdgeCompileConfig
    from torch.export import ExportedProgram

    from cede.claim import Answers
    from cede.config import Config
    from cede.host import Host
    from cede.planning import Plan
    from cede.types import Finding

T = TypeVar("T")


@dataclass(frozen=True, slots=True, kw_only=True)
class Scouting:
    """A plan made without compiling.

    Attributes:
        plan: the plan.
        dropped: ATen nodes that had to be decomposed for it after all.
        answers: what each partitioner answered, before the policy.
        findings: where the plan does not meet the policy.
        nodes: name of the exported program's node by an op's id, where that was noted in it.
    """

    plan: Plan
    dropped: frozenset[str]
    answers: tuple[Answers, ...]
    findings: tuple[Finding, ...]
    nodes: Mapping[str, str] = field(default_factory=dict)


def scout(
    program: ExportedProgram, host: Host, config: Config, options: Mapping[str, Any]
) -> Scouting:
    """Plan a program from `torch.export.export`; it is left as it is.

    A policy that is not met is only told: nothing is raised for it.
    """

    def attempt(dropped: Collection[str]) -> Scouting:
        def convert(settings: EdgeCompileConfig, plain: bool) -> None:
            partitioner = PlanPartitioner(
                host, config, options, dropped=dropped, scout=True, retries=True, plain=plain
            )
            to_edge_transform_and_lower(program, partitioner=[partitioner], compile_config=settings)

        try:
            let_through(program, convert)
        except Scouted as done:
            return Scouting(
                plan=done.plan,
                dropped=frozenset(dropped),
                answers=done.answers,
                findings=done.findings,
                nodes=done.nodes,
            )
        except (CedeError, KeptUnclaimed):
            raise
        except Exception as error:
            raise upstream_error("convert the program", error, None) from error
        raise PlanError("ExecuTorch did not ask for a partition")

    with quickly(host, config):
        return until_claimed(attempt)


def until_claimed(attempt: Callable[[Collection[str]], T]) -> T:
    """Repeat an attempt with fewer ops kept whole until none of them is left unclaimed.

    Each round drops at least one more node, so it ends.
    """
    dropped: set[str] = set()
    while True:
        try:
            return attempt(dropped)
        except KeptUnclaimed as left:
            if left.names <= dropped:
                raise PlanError(
                    f"ops stay whole although nobody claims them: {', '.join(sorted(left.names))}"
                ) from None
            dropped |= left.names
