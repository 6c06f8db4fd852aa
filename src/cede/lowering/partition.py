"""One ExecuTorch `Partitioner` over any number of ours."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Any

from executorch.exir.backend.compile_spec_schema import CompileSpec
from executorch.exir.backend.partitioner import DelegationSpec, Partitioner, PartitionResult

from cede.claim import Answers, ask
from cede.errors import LoweringError, PlanError
from cede.facts import read_graph
from cede.facts.arguments import aten_overload
from cede.lowering.contest import limits_for, make_plan
from cede.lowering.custom import decomposed
from cede.lowering.encoded import Natives, decoded, told
from cede.lowering.external import mark_adapters
from cede.lowering.failing import barred
from cede.lowering.flows import apart
from cede.lowering.keep import Keeping
from cede.lowering.layouts import LayoutsMet, copied_to_plain, meeting, odd, told_meeting
from cede.lowering.policed import policed
from cede.lowering.preflight import fitted, insist_on_all, problems, unrunnable
from cede.lowering.prepare import prepared
from cede.lowering.sizes import Place, dynamic, insist_on_dynamic
from cede.lowering.stored import stored_by_methods, told_twice
from cede.lowering.tags import noted, taken_in, write_tags
from cede.lowering.view import difference, shape_of, view_of
from cede.policy import read_policy, without
from cede.quiet import logging_kept
from cede.reporting import Report, make_report, require_whole
from cede.types import Limits, Program

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping, Sequence

    from torch.export import ExportedProgram
    from torch.fx import Node

    from cede.config import Config
    from cede.host import Host
    from cede.lowering.failing import Failure
    from cede.planning import Plan
    from cede.reporting.content import SharedConstant
    from cede.types import Finding, OpGraph


class KeptUnclaimed(Exception):
    """Ops were kept whole that nobody got: they must be decomposed and the plan made again."""

    def __init__(self, names: set[str]) -> None:
        super().__init__(", ".join(sorted(names)))
        self.names = names


class Scouted(Exception):
    """Leaves lowering with the plan once there is one."""

    def __init__(
        self,
        plan: Plan,
        answers: tuple[Answers, ...],
        findings: tuple[Finding, ...],
        nodes: Mapping[str, str],
    ) -> None:
        super().__init__("planned")
        self.plan, self.answers, self.findings, self.nodes = plan, answers, findings, nodes


class PlanPartitioner(Partitioner):  # type: ignore[misc]
    """Asks every partitioner, settles, and tags what the plan says, in one `partition` call.

    Attributes:
        notes: what reviews said, beyond the plans' own warnings.
        constants: those with several holders or copies in all methods, once they are lowered.
        plans: one a method, in order, once `partition` has run.
    """

    def __init__(
        self,
        host: Host,
        config: Config,
        options: Mapping[str, Any],
        *,
        replay: Plan | None = None,
        dropped: Collection[str] = (),
        scout: bool = False,
        retries: bool = False,
        failures: Sequence[Failure] = (),
        plain: bool = False,
    ) -> None:
        """Prepare; nothing is imported or asked yet.

        Args:
            host: the loaded plugins.
            config: backends, limits and time limits.
            options: by backend name, checked.
            replay: a plan to follow instead of asking.
            dropped: ATen nodes that must not be kept whole.
            scout: leave by `Scouted` as soon as there is a plan.
            retries: leave by `KeptUnclaimed` where a kept op is left; else scouting finds them.
            failures: ops that backends could not compile, and don't get again.
            plain: whether inputs are copied to the contiguous order, else `LayoutsMet` asks for it.
        """
        super().__init__()
        self.host, self.config, self.options, self.replay = host, config, options, replay
        self.dropped, self.failures = frozenset(dropped), tuple(failures)
        self.scout, self.retries, self.plain = scout, retries, plain
        self.plans: list[Plan] = []
        self.notes: list[str] = []
        self.constants: tuple[SharedConstant, ...] | None = None
        self._asked = host.partitioners_for(config)
        self._policy = read_policy(config)
        # ExecuTorch decomposes every method before it partitions the first: one entry a method.
        self._lowered: list[ExportedProgram] = []
        self._keepings: list[Keeping] = []
        self._decomposed: list[list[str]] = []
        self._dynamic: list[frozenset[Place]] = []

    @property
    def plan(self) -> Plan | None:
        """The plan of the last method partitioned, None before that."""
        return self.plans[-1] if self.plans else None

    def report(self) -> Report:
        """The per-op delegation table of the plan.

        Raises:
            PlanError: nothing has been partitioned yet.
        """
        if self.plan is None or self.plan.graph is None:
            raise PlanError("no plan yet: call to_edge_transform_and_lower with this partitioner")
        return make_report(self.plan, self.plan.graph, stored=self.constants)

    def transform_for_pre_decomposition(self, exported_program: ExportedProgram) -> ExportedProgram:
        """Make borders legal; find kept ops that will be left, where that can happen."""
        if self.plans:  # a new lowering with the same partitioner
            self.plans, self._keepings, self._decomposed, self._dynamic = [], [], [], []
            self.constants = None
        self._dynamic.append(dynamic(exported_program))
        program = prepared(copied_to_plain(exported_program) if self.plain else exported_program)
        self._keepings.append(self._keep())
        if not (self.scout or self.retries or self.replay) and self._may_leave_kept(program):
            from cede.lowering.scout import scout

            found = scout(program, self.host, self.config, self.options)
            self._keepings[-1] = self._keep(found.dropped)
        keeping = self._keepings[-1]
        names = {n.name for n in program.graph.nodes} | {str(n.target) for n in program.graph.nodes}
        self._decomposed.append([name for name in keeping.dropped if name in names])
        program = self._decode(program, keeping)
        return decomposed(program, lambda op: keeping.wants_whole(op, program))

    def _decode(self, program: ExportedProgram, keeping: Keeping) -> ExportedProgram:
        """Decode the weights that no backend computes with, and say so."""
        natives = Natives(self.host, self._asked)
        left = keeping.encoded(program, natives)
        program, rows = decoded(program, self.host, left, natives.why)
        keeping.warnings += told(rows)
        return program

    def _keep(self, dropped: Collection[str] = ()) -> Keeping:
        only = self.replay.kept if self.replay is not None else None
        return Keeping(self._asked, self.options, self.dropped | set(dropped), only)

    def ops_to_not_decompose(
        self, ep: ExportedProgram
    ) -> tuple[list[Any], Callable[[Node], bool] | None]:
        """Every partitioner's wishes together; after partitioning, what was kept and is fine."""
        if self.plans:
            self._tell_stored(ep)
            kept = {op for keeping in self._keepings for op in keeping.kept.values()}
            left = kept & {aten_overload(node.target) for node in ep.graph.nodes}
            return list(left), (lambda node: False) if left else None
        return self._keepings[-1].request(ep)

    def _tell_stored(self, lowered: ExportedProgram) -> None:
        """Once every method of a script is lowered, tell which constants are stored how often."""
        if self.retries or self.constants is not None or any(lowered is e for e in self._lowered):
            return
        self._lowered.append(lowered)
        if len(self._lowered) == len(self.plans):
            self.constants = stored_by_methods(self._lowered, self.plans)
            self._lowered = []
            plan, more = self.plans[-1], told_twice(self.constants, script=True)
            self.plans[-1] = dataclasses.replace(plan, warnings=(*plan.warnings, *more))
            if self.config.strict:
                for plan in self.plans:
                    assert plan.graph is not None  # noqa: S101  (each was made here)
                    require_whole(make_report(plan, plan.graph))

    def partition(self, exported_program: ExportedProgram) -> PartitionResult:
        """Plan (or follow the plan) and tag."""
        insist_on_dynamic(exported_program, self._dynamic[len(self.plans)])
        graph = read_graph(exported_program)
        keeping = self._keepings[len(self.plans)]
        plan, answers = self._planned(exported_program, graph, keeping)
        decomposed = None if self.replay is not None else self._decomposed[len(self.plans)]
        lost = problems(exported_program, plan, graph, own=self.scout or self.retries)
        if self.scout:
            told = (*lost, *unrunnable(exported_program, plan, graph))
            plan = dataclasses.replace(plan, warnings=(*plan.warnings, *told))
        plan, findings = policed(plan, graph, self._policy, self._asked, decomposed)
        self.plans.append(plan)
        if self.scout:
            raise Scouted(plan, answers, findings, noted(exported_program))
        insist_on_all(findings, self._review(plan, graph), lost)
        tags = write_tags(plan, graph, exported_program, taken_in(plan, self.host))
        mark_adapters(exported_program, self.config.lowering)
        return PartitionResult(
            tagged_exported_program=exported_program,
            partition_tags={
                tags[given.id]: self._delegation_spec(given.backend, given.specs)
                for given in plan.delegations
            },
        )

    def _review(self, plan: Plan, graph: OpGraph) -> list[str]:
        """Reviews' errors; what is none becomes a note."""
        errors = []
        for finding in self.host.review(plan, graph):
            if finding.severity == "error":
                errors.append(f"{finding.message} ({finding.op or 'the whole plan'})")
            else:
                self.notes.append(f"{finding.severity}: {finding.message}")
        return errors

    def _planned(
        self, program: ExportedProgram, graph: OpGraph, keeping: Keeping
    ) -> tuple[Plan, tuple[Answers, ...]]:
        """The plan to follow, or a new one with the answers that it was settled from."""
        retries = (self.retries or self.scout) and not self.plain and bool(odd(program))
        if self.replay is not None:
            if retries and self.replay.fingerprint != graph.fingerprint:
                raise LayoutsMet
            return fitted(self.replay, graph), ()
        answers = tuple(self._ask(each, graph, program) for each in self._asked)
        answers = apart(graph, without(graph, answers, barred(self.failures, graph)))
        told = (*keeping.warnings, *(failure.warning for failure in self.failures))
        plan = make_plan(
            graph, answers, self._asked, self.host, self.config, tuple(keeping.kept), told
        )
        met = meeting(plan, graph)
        if retries and met:
            raise LayoutsMet
        plan = dataclasses.replace(plan, warnings=(*plan.warnings, *told_meeting(met)))
        left = keeping.unclaimed(program, plan.delegation_of())
        if left and self.retries:
            raise KeptUnclaimed(left)
        if left:
            note = "kept whole and then left, so the program may need a kernel that is not there"
            warning = f"{note}: {', '.join(sorted(left))}"
            plan = dataclasses.replace(plan, warnings=(*plan.warnings, warning))
        return plan, answers

    def _ask(self, partitioner: Any, graph: OpGraph, program: ExportedProgram) -> Answers:
        view = view_of(program)
        before = shape_of(view)
        return ask(
            partitioner,
            Program(graph=graph, exported=view, options=self.options.get(partitioner.backend)),
            source=self.host.source("partitioner", partitioner.name),
            seconds=self.config.seconds,
            changed=lambda: difference(before, shape_of(view)),
            objects=self.host.backend(partitioner.backend).objects,
        )

    def _delegation_spec(
        self, backend: str, specs: tuple[tuple[str, bytes], ...]
    ) -> DelegationSpec:
        record = self.host.backend(backend)
        if (why := self.host.availability(backend).lower) is not None:
            raise LoweringError(f"the backend {backend!r} can't lower here: {why}")
        with logging_kept("executorch"):
            record.register()
        given = specs or tuple(record.compile_specs(self.options.get(backend)))
        choose = record.delegate_for
        return DelegationSpec(
            choose(given) if choose is not None else record.delegate_id,
            [CompileSpec(key, bytes(value)) for key, value in given],
        )

    def _may_leave_kept(self, program: ExportedProgram) -> bool:
        keeping = Keeping(self._asked, self.options)
        keeping.encoded(program, Natives(self.host, self._asked))
        if keeping.kept:
            return True
        ops, _ = keeping.request(program)
        if not ops:
            return False
        if not keeping.certain:
            return True
        limited = any(
            limits_for(self.host, p.backend, self.config) != Limits() for p in self._asked
        )
        choosy = self.config.settle != "priority" or self._policy.filters
        return limited or choosy or len(self._asked) > 1
