"""From a plan and its facts to a report."""

from __future__ import annotations

from typing import TYPE_CHECKING

from cede.costs import predicted
from cede.errors import PlanError
from cede.reporting.borders import borders
from cede.reporting.content import kernels, shared_constants
from cede.reporting.memory import states
from cede.reporting.records import Answer, Outcome, Report, Row
from cede.reporting.totals import by_delegate, by_module, by_type, totals

if TYPE_CHECKING:
    from cede.costs import Timing
    from cede.planning import Plan
    from cede.reporting.comparison import Rank
    from cede.reporting.content import SharedConstant
    from cede.reporting.memory import MemoryUse
    from cede.types import Delegation, Op, OpGraph


def make_report(
    plan: Plan,
    graph: OpGraph,
    timing: Timing | None = None,
    memory: MemoryUse | None = None,
    ranking: tuple[Rank, ...] = (),
    stored: tuple[SharedConstant, ...] | None = None,
) -> Report:
    """Tell who took each op and why the others did not.

    Args:
        plan: the settled answers; PlanError where they are about another graph.
        graph: the facts that the plan was made from.
        timing: what its program took, if it was run.
        memory: what its program plans, if it was emitted.
        ranking: what more support would change, from `cede.whatif.ranked`.
        stored: constants with several holders as the program stores them, if it was emitted.
    """
    _insist_on_one_program(plan, graph)
    took = _took(plan)
    rows = _rows(plan, graph, took)
    prediction = predicted(graph, plan, plan.costs) if plan.costs is not None else None
    return Report(
        rows=rows,
        totals=totals(graph, set(took), len(plan.delegations)),
        by_type=by_type(plan, graph),
        by_module=by_module(rows),
        by_delegate=by_delegate(rows, plan, graph, prediction, timing),
        plan=plan,
        graph=graph,
        prediction=prediction,
        timing=timing,
        states=states(plan, graph),
        memory=memory,
        borders=borders(plan, graph),
        kernels=kernels(rows, graph),
        shared_constants=shared_constants(plan, graph) if stored is None else stored,
        ranking=ranking,
    )


def _insist_on_one_program(plan: Plan, graph: OpGraph) -> None:
    if plan.fingerprint != graph.fingerprint:
        raise PlanError(
            f"the plan is for another program (fingerprint {plan.fingerprint[:12]}, this one has "
            f"{graph.fingerprint[:12]}): plan it again"
        )


def _took(plan: Plan) -> dict[str, tuple[Delegation, str]]:
    return {
        op: (given, part.partitioner)
        for given in plan.delegations
        for part in given.parts
        for op in part.ops
    }


def _rows(plan: Plan, graph: OpGraph, took: dict[str, tuple[Delegation, str]]) -> tuple[Row, ...]:
    answers, asked = _answers(plan), _asked(plan)
    return tuple(
        _row(op, graph, took.get(op.id), [(name, answers.get((op.id, name))) for name in asked])
        for op in graph.ops
    )


def _asked(plan: Plan) -> tuple[str, ...]:
    """Partitioners in priority order; those that only a part names come last."""
    names = [given.name for given in plan.partitioners]
    names += [part.partitioner for given in plan.delegations for part in given.parts]
    names += [refusal.partitioner for refusal in plan.refusals]
    names += [loss.partitioner for loss in plan.losses]
    return tuple(dict.fromkeys(names))


def _answers(plan: Plan) -> dict[tuple[str, str], Answer]:
    found: dict[tuple[str, str], Answer] = {}
    for refusal in plan.refusals:
        found[refusal.op, refusal.partitioner] = Answer(
            partitioner=refusal.partitioner, outcome=Outcome.REFUSED, reason=refusal.reason
        )
    for loss in plan.losses:
        found[loss.op, loss.partitioner] = Answer(
            partitioner=loss.partitioner, outcome=Outcome.LOST, reason=loss.reason
        )
    for given in plan.delegations:
        for part in given.parts:
            for op in part.ops:
                found[op, part.partitioner] = Answer(
                    partitioner=part.partitioner, outcome=Outcome.TOOK
                )
    return found


def _row(
    op: Op,
    graph: OpGraph,
    taken: tuple[Delegation, str] | None,
    answers: list[tuple[str, Answer | None]],
) -> Row:
    given = tuple(answer for _, answer in answers if answer is not None)
    reasons = [f"{answer.partitioner}: {answer.reason}" for answer in given if answer.reason]
    constants = (graph.input(used) for used in op.inputs)
    return Row(
        op=op.id,
        target=op.target,
        module=op.module,
        layer=op.layer,
        source=op.source,
        scope=op.scope,
        backend=taken[0].backend if taken else "",
        delegate=taken[0].id if taken else "",
        partitioner=taken[1] if taken else "",
        outputs=" ".join(map(str, op.outputs)),
        flops=op.flops,
        bytes=sum(fact.nbytes for fact in op.outputs)
        + sum(c.tensor.nbytes for c in constants if c and c.constant and c.tensor),
        bookkeeping=op.bookkeeping,
        reason="" if taken else "; ".join(reasons) or "no partitioner was asked",
        answers=given,
        inputs=op.inputs,
    )
