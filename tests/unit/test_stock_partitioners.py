"""Adopted partitioners that claim here without a vendor's SDK, and claims that go together."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
import torch
from executorch.backends.apple.metal.metal_partitioner import MetalPartitioner
from executorch.backends.native.partitioner import NativePartitioner
from tests.unit.delegated import NETS, ask, edge_of, exported, inside, lowered_by, tagged

import cede
from cede.errors import LoweringError
from cede.facts import read_graph
from cede.partitioners.adopt.join import joined
from cede.running.pte import delegates_of
from cede.types import Claim

if TYPE_CHECKING:
    from collections.abc import Callable

# ExecuTorch says of Metal that it is experimental.
pytestmark = pytest.mark.filterwarnings("ignore:This API and all of Metal")

STOCK: dict[str, Callable[[], Any]] = {
    "native": lambda: NativePartitioner(external_constants_tag=None),
    "metal-aoti": lambda: MetalPartitioner([]),
}


@pytest.mark.parametrize("name", NETS)
@pytest.mark.parametrize("backend", STOCK)
def test_claims_are_the_stock_partitioners(backend: str, name: str) -> None:
    claims, refusals = ask(backend, edge_of(name))
    ours = {op for claim in claims for op in claim.ops}
    assert ours
    assert ours == tagged(STOCK[backend](), edge_of(name))
    assert all(refusal.reason.detail for refusal in refusals)


def test_native_lowers_what_the_stock_partitioner_lowers() -> None:
    model, args = NETS["attention"]
    config = cede.load_config(None, ["backends=[native]"])
    lowered = cede.export(model, args, config=config)
    stock = lowered_by([STOCK["native"]()], exported("attention"))
    assert inside(lowered.edge) == inside(stock)
    assert not lowered.plan.warnings
    assert {id for _, id, _ in delegates_of(lowered.buffer)} == {"NativeBackend"}
    with pytest.raises(LoweringError, match=r"backend native can't run here: .*build executorch"):
        cede.run(lowered.buffer, args)


def test_what_cannot_be_lowered_here_can_be_planned_and_says_so() -> None:
    model, args = NETS["net"]
    config = cede.load_config(None, ["backends=[metal-aoti]"])
    plan = cede.plan(exported("net"), config=config)
    assert len(plan.delegations) == 1
    assert not plan.warnings
    with pytest.raises(LoweringError, match=r"'metal-aoti' can't lower here: .* Mac, this is"):
        cede.export(model, args, config=config)


def chain() -> Any:
    class Chain(torch.nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return torch.relu(torch.tanh(torch.sigmoid(torch.exp(x))))

    from executorch.exir import to_edge

    return read_graph(to_edge(torch.export.export(Chain(), (torch.randn(2),))).exported_program())


def test_claims_that_a_group_touches_become_one() -> None:
    graph = chain()
    a, b, c, d = [op.id for op in graph.ops]
    claims = [
        Claim(
            partitioner="p",
            backend="p",
            ops=frozenset({op}),
            note=op,
            divisible=True,
            marks=((op, "key", 1),),
        )
        for op in (d, c, b, a)
    ]
    found = joined(claims, [[c, "elsewhere", b], [d, c], ["elsewhere"]], graph)
    assert [sorted(claim.ops) for claim in found] == [[a], sorted([b, c, d])]
    assert [claim.divisible for claim in found] == [True, False]
    assert sorted(mark[0] for mark in found[1].marks) == sorted([b, c, d])
    assert found[1].note == ", ".join([d, c, b])
    assert joined(claims, [], graph) == claims[::-1]


def test_a_group_within_one_claim_keeps_it_whole() -> None:
    graph = chain()
    ops = frozenset(op.id for op in graph.ops)
    claim = Claim(partitioner="p", backend="p", ops=ops, divisible=True)
    (found,) = joined([claim], [list(ops)[:1]], graph)
    assert (found.ops, found.divisible) == (ops, False)
