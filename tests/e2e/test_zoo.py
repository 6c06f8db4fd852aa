"""Real models through the whole way: planned, lowered, run in the real runtime, compared."""

from __future__ import annotations

from functools import cache
from typing import Any

import pytest
import torch
from executorch.backends.xnnpack.partition.xnnpack_partitioner import XnnpackPartitioner
from executorch.devtools.backend_debug import get_delegation_info
from executorch.exir import to_edge_transform_and_lower
from tests.zoo import ZOO, exported

import cede
from cede.types import Code


@cache
def lowered(name: str) -> Any:
    return cede.lower(exported(name).program, config="xnnpack-fp32")


class _Counted(Exception):
    pass


class _Stock(XnnpackPartitioner):
    """The stock partitioner, left as soon as it has tagged."""

    def partition(self, exported_program: Any) -> Any:
        self.result = super().partition(exported_program)
        nodes = exported_program.graph.nodes
        self.taken = {
            n.name for n in nodes if n.op == "call_function" and "delegation_tag" in n.meta
        }
        raise _Counted


QUICK = [
    pytest.param(name, marks=pytest.mark.slow) if name == "mobilenet" else name for name in ZOO
]


@pytest.mark.parametrize("name", ZOO)
def test_right_numbers_in_the_runtime(name: str) -> None:
    model, args, _ = exported(name)
    with torch.no_grad():
        wanted = model(*args)
    assert wanted.std() > 1e-3, "a model whose output is flat proves nothing"
    got = cede.run(lowered(name).buffer, args)
    assert got.runtime == "executorch"
    torch.testing.assert_close(got.outputs[0], wanted, atol=1e-4, rtol=1e-4)


@pytest.mark.parametrize("name", ZOO)
def test_every_op_has_one_answer_of_every_partitioner(name: str) -> None:
    plan, graph = lowered(name).plan, lowered(name).graph
    places = [
        (op, part.partitioner) for d in plan.delegations for part in d.parts for op in part.ops
    ]
    places += [(row.op, row.partitioner) for row in (*plan.refusals, *plan.losses)]
    wanted = [(op.id, source.name) for op in graph.ops for source in plan.partitioners]
    assert sorted(places) == sorted(wanted)
    assert all(row.reason.detail for row in (*plan.refusals, *plan.losses))
    assert not plan.warnings


@pytest.mark.parametrize("name", QUICK)
def test_no_worse_than_the_stock_partitioner(name: str) -> None:
    stock = _Stock()
    with pytest.raises(_Counted):
        to_edge_transform_and_lower(exported(name).program, partitioner=[stock])
    plan = lowered(name).plan
    assert len(plan.delegations) <= len(stock.result.partition_tags)
    missing = stock.taken - set(plan.delegation_of())
    vetoed = {
        row.op
        for row in plan.refusals
        if row.reason.code is Code.QUANT_SCHEME and "lose" in row.reason.detail
    }
    assert missing <= vetoed


@pytest.mark.parametrize("name", ZOO)
def test_totals_agree_with_get_delegation_info(name: str) -> None:
    result = lowered(name)
    info = get_delegation_info(result.edge.graph_module)
    wanted = {
        kind: (each.delegated, each.non_delegated)
        for kind, each in info.delegation_by_operator.items()
    }
    report = result.report()
    assert {row.op_type: (row.delegated, row.non_delegated) for row in report.by_type} == wanted
    assert info.num_delegated_subgraphs == len(result.plan.delegations)


@pytest.mark.parametrize("name", QUICK)
def test_the_reference_backend_takes_it_whole(name: str) -> None:
    model, args, program = exported(name)
    result = cede.lower(program, config="reference")
    assert len(result.plan.delegations) == 1
    assert set(result.plan.delegation_of()) == {op.id for op in result.graph.ops}
    got = cede.run(result.buffer, args)
    assert got.runtime == "reference"
    with torch.no_grad():
        assert torch.equal(got.outputs[0], model(*args))
