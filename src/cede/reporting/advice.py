"""The most useful things to do about a plan, from the what-if ranking and the reasons."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import chain, zip_longest
from typing import TYPE_CHECKING

from cede.reporting.comparison import points
from cede.reporting.tables import quantity
from cede.types import Code

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from cede.reporting.comparison import Rank
    from cede.reporting.content import SharedConstant
    from cede.reporting.records import Report, Row
    from cede.types import OpGraph, Reason

MOST = 3
"""How many things to do are told."""

OWN = {
    Code.QUANT_SCHEME: "quantize {ops} in a scheme that {who} takes",
    Code.DTYPE: "quantize or cast {ops} to numbers that {who} takes",
    Code.DYNAMIC_SHAPE: "give {ops} fixed or bounded sizes for {who}",
    Code.UNAVAILABLE: "make {who} available for {ops}",
    Code.PLUGIN_FAILED: "repair {who}, which failed on {ops}",
    Code.COMPILE_FAILED: "find out why {who} does not compile {ops}",
}
"""What the owner of a model can do by code; everything else is up to the backend."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Advice:
    """One thing to do.

    Attributes:
        do: what, in few words.
        gain: what it would bring, or bring at most.
        why: the reason that stands in the way.
        ops: ids of the ops that it is about.
    """

    do: str
    gain: str
    why: str
    ops: tuple[str, ...] = ()


def advice(report: Report) -> tuple[Advice, ...]:
    """At most three, the best of each source first.

    Sources are the ranking (operators whose support would merge delegates or cover more FLOPs),
    then what the owner of the model can do about left ops by their reasons (most FLOPs first),
    and last the constant with most bytes in further copies.
    """
    told: list[Advice] = []
    done: set[str] = set()
    pairs = zip_longest(_ranked(report.ranking, report.graph), _hints(report))
    for one in chain(filter(None, chain.from_iterable(pairs)), _copies(report.shared_constants)):
        if one.ops and done.issuperset(one.ops):
            continue
        told.append(one)
        done.update(one.ops)
        if len(told) == MOST:
            break
    return tuple(told)


def _ranked(ranking: Sequence[Rank], graph: OpGraph) -> Iterator[Advice]:
    for rank in ranking:
        if rank.merged <= 0 and rank.flops <= 0:
            continue
        ops = f"{rank.kind} ({_count(rank.ops)})"
        own = all(_doable(rank.reason, op, graph) for op in rank.ops)
        words = OWN[rank.reason.code] if own else "support {ops} on {who}"
        yield Advice(
            do=words.format(ops=ops, who=rank.backend),
            gain=rank.comparison.gain,
            why=str(rank.reason),
            ops=rank.ops,
        )


def _hints(report: Report) -> list[Advice]:
    groups: dict[tuple[str, Reason], list[Row]] = {}
    for row in report.left:
        for answer in row.answers:
            if answer.reason and _doable(answer.reason, row.op, report.graph):
                groups.setdefault((answer.partitioner, answer.reason), []).append(row)
    ordered = sorted(groups.items(), key=lambda g: (-sum(r.flops for r in g[1]), -len(g[1])))
    return [
        Advice(
            do=OWN[reason.code].format(ops=_count(left), who=who),
            gain=f"at most {points(len(left), report.totals.ops)} ops and "
            f"{points(sum(row.flops for row in left), report.totals.flops)} FLOPs covered",
            why=f"{who}: {reason}",
            ops=tuple(row.op for row in left),
        )
        for (who, reason), left in ordered
    ]


def _doable(reason: Reason, id: str, graph: OpGraph) -> bool:
    if reason.code is not Code.DTYPE:
        return reason.code in OWN
    # indices, counts and masks are what they are
    op = graph.op(id)
    facts = [*op.outputs[:1], *filter(None, map(graph.fact, op.inputs))]
    return all("float" in fact.dtype for fact in facts if not fact.dtype.startswith("Sym"))


def _copies(shared: Sequence[SharedConstant]) -> Iterator[Advice]:
    for one in [one for one in shared if one.extra_bytes][:1]:
        extra = quantity(one.extra_bytes, "B")
        yield Advice(
            do=f"bring the readers of {one.name} into one delegate",
            gain=f"{'up to ' if one.copies is None else ''}{extra} less in the file",
            why=f"read in {', '.join(one.holders)}",
            ops=one.ops,
        )


def _count(ops: Sequence[object]) -> str:
    return f"{len(ops)} op{'' if len(ops) == 1 else 's'}"
