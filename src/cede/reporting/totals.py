"""Totals by op type, by module and by delegate."""

from __future__ import annotations

import re
from collections import Counter
from typing import TYPE_CHECKING

from cede.reporting.records import DelegateTotal, ModuleTotal, Row, Totals, TypeTotal

if TYPE_CHECKING:
    from collections.abc import Container, Iterator, Sequence

    from cede.costs import Prediction, Timing
    from cede.planning import Plan
    from cede.types import Delegation, OpGraph


def totals(graph: OpGraph, taken: Container[str], delegates: int) -> Totals:
    """Sums over the program. A constant that several ops read counts once.

    Args:
        graph: the facts.
        taken: ids of the ops in delegates.
        delegates: how many there are.
    """
    weights = delegated_weights = 0
    for given in graph.inputs:
        users = graph.users(given.id)
        # a branch reads the same constants through inputs of its own
        if given.scope or not given.constant or not given.tensor or not users:
            continue
        weights += given.tensor.nbytes
        delegated_weights += given.tensor.nbytes * any(user in taken for user in users)
    real = [op for op in graph.ops if not op.bookkeeping]
    return Totals(
        ops=len(real),
        delegated=sum(op.id in taken for op in real),
        bookkeeping=len(graph.ops) - len(real),
        delegates=delegates,
        flops=sum(op.flops for op in graph.ops),
        delegated_flops=sum(op.flops for op in graph.ops if op.id in taken),
        weight_bytes=weights,
        delegated_weight_bytes=delegated_weights,
    )


def by_type(plan: Plan, graph: OpGraph) -> tuple[TypeTotal, ...]:
    """Node counts of the lowered program, as `get_delegation_info` gives them."""
    taken = plan.delegation_of()
    inside: Counter[str] = Counter()
    outside: Counter[str] = Counter()
    for op in graph.scope(""):
        name = re.sub(r"_\d+$", "", op.id)
        (inside if op.id in taken else outside)[name] += 1
    leaving = sum(
        1 for given in plan.delegations for op in _leaving(given, graph) if not graph.op(op).scope
    )
    if leaving:
        outside["getitem"] += leaving
    return tuple(
        TypeTotal(op_type=name, delegated=inside[name], non_delegated=outside[name])
        for name in sorted(inside.keys() | outside.keys())
    )


def by_module(rows: Sequence[Row]) -> tuple[ModuleTotal, ...]:
    """Sums for each module path and all paths above it, without bookkeeping."""
    sums: dict[str, list[int]] = {}
    children: dict[str, list[str]] = {}
    for row in rows:
        if row.bookkeeping:
            continue
        for parent, path in _paths(row.module):
            if path not in sums:
                sums[path] = [0, 0, 0, 0]
                if path:
                    children.setdefault(parent, []).append(path)
            inside = bool(row.delegate)
            for i, more in enumerate((1, inside, row.flops, row.flops * inside)):
                sums[path][i] += more

    def walk(path: str) -> Iterator[str]:
        yield path
        for child in children.get(path, ()):
            yield from walk(child)

    return tuple(
        ModuleTotal(
            module=path,
            ops=sums[path][0],
            delegated=sums[path][1],
            flops=sums[path][2],
            delegated_flops=sums[path][3],
        )
        for path in (walk("") if sums else ())
    )


def _paths(module: str) -> Iterator[tuple[str, str]]:
    """Pairs (parent, path) from the root down."""
    yield "", ""
    parent = ""
    for name in module.split(".") if module else ():
        path = f"{parent}.{name}" if parent else name
        yield parent, path
        parent = path


def by_delegate(
    rows: Sequence[Row],
    plan: Plan,
    graph: OpGraph,
    prediction: Prediction | None = None,
    timing: Timing | None = None,
) -> tuple[DelegateTotal, ...]:
    """One line a delegate, with what crosses its border and why it ends."""
    row_of = {row.op: row for row in rows}
    found = []
    for number, given in enumerate(plan.delegations):
        mine = [row_of[op] for op in given.ops]
        found.append(
            DelegateTotal(
                id=given.id,
                backend=given.backend,
                partitioners=tuple(dict.fromkeys(part.partitioner for part in given.parts)),
                ops=sum(not row.bookkeeping for row in mine),
                flops=sum(row.flops for row in mine),
                bytes_in=sum(_nbytes(id, graph) for id in _entering(given, graph)),
                bytes_out=sum(_nbytes(id, graph) for id in _leaving(given, graph)),
                ends=_ends(given, graph, row_of),
                predicted_seconds=prediction.delegates[number].seconds if prediction else None,
                measured_seconds=timing.delegates.get(given.id) if timing else None,
            )
        )
    return tuple(found)


def _nbytes(id: str, graph: OpGraph) -> int:
    if (given := graph.input(id)) is not None:
        return given.tensor.nbytes if given.tensor else 0
    return sum(fact.nbytes for fact in graph.op(id).outputs)


def _entering(given: Delegation, graph: OpGraph) -> list[str]:
    """Ids of the values a delegate reads from outside, constants left out."""
    members = set(given.ops)
    used = dict.fromkeys(id for op in given.ops for id in graph.op(op).inputs)
    return [
        id
        for id in used
        if id not in members and not ((i := graph.input(id)) is not None and i.constant)
    ]


def _leaving(given: Delegation, graph: OpGraph) -> list[str]:
    """Ids of the values of a delegate that are used outside it."""
    members = set(given.ops)
    returned = {*graph.outputs, *(id for _, id in graph.mutations)}
    returned.update(
        id for scope, ids in graph.returns for id in ids if not _whole(scope, members, graph)
    )
    return [
        op
        for op in given.ops
        if op in returned or any(user not in members for user in graph.users(op))
    ]


def _whole(scope: str, members: set[str], graph: OpGraph) -> bool:
    """Whether the control-flow op that runs this branch is in the delegate as well."""
    return any(scope in graph.op(op).branches for op in members)


def _ends(given: Delegation, graph: OpGraph, row_of: dict[str, Row]) -> str:
    members = set(given.ops)
    after = {user for op in given.ops for user in graph.users(op) if user not in members}
    rows = [row_of[op] for op in sorted(after, key=graph.position)]
    rows = [row for row in rows if not row.bookkeeping] or rows
    foreign = [row for row in rows if row.backend != given.backend]
    if not rows:
        return "output"
    row = (foreign or rows)[0]
    if not row.delegate:
        return f"{row.op}: {row.reason}"
    reasons = [f"{answer.partitioner}: {answer.reason}" for answer in row.answers if answer.reason]
    return f"{row.op}: in {row.delegate} ({row.backend})" + "".join(f"; {why}" for why in reasons)
