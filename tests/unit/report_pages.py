"""A report of any size, with delegates, refusals, modules, skip connections and what-ifs."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from cede.planning import Plan, Source
from cede.reporting import Comparison, Rank, Report, make_report
from cede.types import Code, Delegation, OpGraph, Part, Reason, Refusal

from .report_graphs import fact, op

if TYPE_CHECKING:
    from cede.types import Op

PER_LAYER = 10
NO_TOPK = Reason(code=Code.UNKNOWN_OP, detail="topk </script><!-- is not taken")


def large(count: int) -> Report:
    """Layers of ten ops with a skip connection each; every fourth ends in an op that is left."""
    ops = tuple(_op(i) for i in range(count))
    left = {op.id for op in ops if op.target.startswith("aten.topk")}
    runs: list[list[str]] = [[]]
    for one in ops:
        if one.id in left:
            runs.append([])
        else:
            runs[-1].append(one.id)
    runs = [run for run in runs if run]
    plan = Plan(
        fingerprint="",
        partitioners=(Source(name="fast", distribution="acme", version="1"),),
        delegations=tuple(
            Delegation(
                id=f"d{n}", backend="quick", parts=(Part(partitioner="fast", ops=tuple(run)),)
            )
            for n, run in enumerate(runs)
        ),
        refusals=tuple(Refusal(partitioner="fast", op=id, reason=NO_TOPK) for id in sorted(left)),
        warnings=("<img src=x onerror=alert(1)>",),
    )
    graph = OpGraph(ops=ops, outputs=(ops[-1].id,))
    before = make_report(plan, graph).totals
    rank = Rank(
        kind="aten.topk",
        backend="quick",
        ops=tuple(sorted(left)),
        touches=len(runs),
        reason=NO_TOPK,
        comparison=Comparison(
            change="supporting aten.topk", before=before, after=replace(before, delegates=1)
        ),
    )
    return make_report(plan, graph, ranking=(rank,) if left else ())


def _op(i: int) -> Op:
    layer, place = divmod(i, PER_LAYER)
    used = [f"op_{i - 1}"] if i else []
    if place == PER_LAYER - 1 and i >= PER_LAYER:
        used.append(f"op_{i - PER_LAYER}")
    target = "aten.linear.default" if place % 3 == 0 else "aten.relu.default"
    if place == PER_LAYER - 1 and layer % 4 == 3:
        target = "aten.topk.default"
    return op(
        f"op_{i}", target, *used,
        module=f"layers.{layer}.{'attn' if place < 5 else 'mlp'}",
        source=f"net.py:{10 + place}", flops=1000 if place % 3 == 0 else 0, outputs=(fact(2, 2),),
    )  # fmt: skip
