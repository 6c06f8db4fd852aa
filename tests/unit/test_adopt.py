"""An adopted stock partitioner claims what it claimed alone, and says why for all the rest."""

from __future__ import annotations

import copy
import logging
from typing import TYPE_CHECKING, Any

import pytest
import torch
import torch.nn.functional as F
from executorch.backends.xnnpack.partition.xnnpack_partitioner import XnnpackPartitioner
from executorch.exir import to_edge_transform_and_lower
from executorch.exir.backend.canonical_partitioners import group_partitioner
from executorch.exir.backend.canonical_partitioners.pattern_op_partitioner import (
    generate_partitions_from_list_of_nodes,
)
from executorch.exir.backend.partitioner import DelegationSpec, Partitioner, PartitionResult
from executorch.exir.backend.utils import WhyNoPartitionReporter
from tests.zoo import ZOO
from torch import nn
from torch.fx.passes.infra import partitioner as fx_partitioner
from torch.fx.passes.infra.partitioner import CapabilityBasedPartitioner
from torch.fx.passes.operator_support import OperatorSupportBase

from cede.facts import read_graph
from cede.partitioners.adopt import Adopted
from cede.partitioners.adopt.intercept import watching
from cede.types import Claim, Code, OpGraph, Program, Refusal

if TYPE_CHECKING:
    from collections.abc import Callable


class Seen(Exception):
    """Leaves lowering with what a partitioner was given."""


class Probe(Partitioner):
    """Stops lowering at partitioning, with the ops kept whole that `stock` wants."""

    def __init__(self, stock: Any) -> None:
        super().__init__()
        self.stock = stock

    def ops_to_not_decompose(self, ep: Any) -> Any:
        return self.stock.ops_to_not_decompose(ep)

    def partition(self, exported_program: Any) -> Any:
        self.program = exported_program
        raise Seen


def edge_program(model: nn.Module, args: tuple[Any, ...], stock: Any) -> Any:
    probe = Probe(stock)
    with pytest.raises(Seen):
        to_edge_transform_and_lower(torch.export.export(model.eval(), args), partitioner=[probe])
    return probe.program


def view(program: Any) -> Any:
    found = copy.copy(program)
    found._graph_module = copy.deepcopy(program.graph_module)
    return found


def adopted(make: Callable[[Any], Any], delegate_id: str = "XnnpackBackend") -> Adopted:
    return Adopted(name="mine", backend="metal", delegate_id=delegate_id, make=make)


def answers(
    program: Any, make: Callable[[Any], Any], **how: Any
) -> tuple[OpGraph, list[Claim], dict[str, Refusal]]:
    graph = read_graph(program)
    given = list(
        adopted(make, **how).claim(Program(graph=graph, exported=view(program), options=None))
    )
    claims = [answer for answer in given if isinstance(answer, Claim)]
    refusals = {answer.op: answer for answer in given if isinstance(answer, Refusal)}
    claimed = {op for claim in claims for op in claim.ops}
    assert claimed | set(refusals) == {op.id for op in graph.ops}
    assert not claimed & set(refusals)
    assert all(refusal.reason.detail.strip() for refusal in refusals.values())
    return graph, claims, refusals


def tagged(program: Any, stock: Any) -> set[str]:
    alone = view(program)
    stock.partition(alone)
    return {
        node.name
        for node in alone.graph.nodes
        if node.op == "call_function" and "delegation_tag" in node.meta
    }


@pytest.mark.parametrize("name", ["resnet", "vit", "llama"])
def test_claims_are_what_the_stock_partitioner_tags(name: str) -> None:
    program = edge_program(*ZOO[name](), XnnpackPartitioner())
    _, claims, refusals = answers(program, lambda options: XnnpackPartitioner())
    wanted = tagged(program, XnnpackPartitioner())
    assert wanted
    assert {op for claim in claims for op in claim.ops} == wanted
    assert sum(len(claim.ops) for claim in claims) == len(wanted), "each op in one claim"
    assert all(not claim.divisible and claim.backend == "metal" for claim in claims)
    if name != "resnet":
        assert refusals


class Declined(nn.Module):
    def forward(self, x: torch.Tensor, y: torch.Tensor, i: torch.Tensor) -> tuple[Any, ...]:
        return (
            torch.softmax(x, 1),
            F.avg_pool2d(x, 3, stride=2, padding=1),
            i * i,
            torch.cumsum(y, 0),
            torch.sub(y, y + 1, alpha=2),
            y[:, ::2],
        )


def test_reasons() -> None:
    example = (torch.randn(1, 3, 8, 8), torch.randn(4, 4), torch.ones(3, dtype=torch.int64))
    program = edge_program(Declined(), example, XnnpackPartitioner())
    graph, claims, refusals = answers(program, lambda options: XnnpackPartitioner())
    claimed = [graph.op(op).kind for claim in claims for op in claim.ops]
    assert claimed == ["aten.add"], "y + 1"
    found = {graph.op(op).kind: row.reason for op, row in refusals.items()}
    reason = found["aten.cumsum"]
    assert (reason.code, reason.detail) == (
        Code.UNKNOWN_OP,
        "no rule for aten.cumsum.default",
    )
    assert found["aten.mul"].code is Code.DTYPE
    assert "inputs int64[3]; output int64[3]" in found["aten.mul"].detail
    assert found["aten._softmax"].code is Code.SHAPE
    assert "got dim = 1" in found["aten._softmax"].detail
    assert found["aten.avg_pool2d"].code is Code.ARGUMENT
    assert found["aten.sub"].code is Code.ARGUMENT
    # This check declines without a word: the line and its condition stand in for one.
    silent = found["aten.slice_copy"]
    assert silent.code is Code.ARGUMENT
    assert silent.detail.startswith("declined by SliceCopyConfig.check_constraints (generic_node_")
    assert silent.detail.endswith("if stride != 1")


def test_a_computed_weight_names_its_chain() -> None:
    norm = torch.nn.utils.parametrizations.weight_norm
    model = nn.Sequential(norm(nn.Conv1d(4, 8, 3)), nn.ReLU(), norm(nn.Conv1d(8, 4, 3)))
    program = edge_program(model, (torch.randn(1, 4, 16),), XnnpackPartitioner())
    graph, _, refusals = answers(program, lambda options: XnnpackPartitioner())
    convs = [refusals[op.id].reason for op in graph.ops if op.kind == "aten.convolution"]
    assert len(convs) == 2
    for reason in convs:
        assert reason.code is Code.NOT_CONSTANT
        chain = reason.detail.partition("weight is computed, not constant: ")[2]
        assert chain == (
            "aten.mul.Tensor <- aten.div.Tensor <- aten.pow.Tensor_Scalar"
            " <- aten.sum.dim_IntList <- aten.pow.Tensor_Scalar"
        )


def test_branches_are_told_apart() -> None:
    class Flow(nn.Module):
        def forward(self, flag: torch.Tensor, x: torch.Tensor) -> torch.Tensor:
            return torch.cond(flag, lambda x: x + 1.0, lambda x: x - 1.0, (x,))

    example = (torch.tensor(True), torch.randn(2))
    program = edge_program(Flow(), example, XnnpackPartitioner())
    graph, _, refusals = answers(program, lambda options: XnnpackPartitioner())
    inside = [op.id for op in graph.ops if op.scope]
    assert inside
    for op in inside:
        assert refusals[op].reason.code is Code.CONTROL_FLOW
        assert refusals[op].reason.detail == "the partitioner doesn't look inside cond"


class Cumsum(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.a, self.b, self.c = nn.Linear(8, 8), nn.Linear(8, 8), nn.Linear(8, 8)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        h = self.a(x)
        s = torch.cumsum(h, -1)
        return self.c(self.b(s) + h) + torch.cumsum(s, 0) * h


class NoCumsum(OperatorSupportBase):
    def is_node_supported(self, submodules: Any, node: Any) -> bool:
        if node.op != "call_function":
            return False
        if "cumsum" in str(node.target):
            logging.getLogger("executorch.toy").info("cumsum has no kernel")
            return False
        return True


class Grouping(Partitioner):
    """Groups as small backends do."""

    def __init__(self, reporter: bool = False, fail: bool = False) -> None:
        super().__init__()
        self.reporter, self.fail = reporter, fail

    def propose(self, program: Any) -> list[Any]:
        return CapabilityBasedPartitioner(
            program.graph_module, NoCumsum(), allows_single_node_partition=True
        ).propose_partitions()

    def partition(self, exported_program: Any) -> PartitionResult:
        tags = {}
        if self.reporter:
            for node in exported_program.graph.nodes:
                if "cumsum" in node.name:
                    WhyNoPartitionReporter().report_reject(node, "rank 7 dims are too many")
        for part in self.propose(exported_program):
            for node in part.nodes:
                node.meta["delegation_tag"] = f"t{part.id}"
            tags[f"t{part.id}"] = DelegationSpec("XnnpackBackend", [])
        if self.fail:
            raise RuntimeError("no SDK")
        return PartitionResult(tagged_exported_program=exported_program, partition_tags=tags)


class FromList(Grouping):
    def propose(self, program: Any) -> list[Any]:
        return generate_partitions_from_list_of_nodes(program.graph_module, op_support=NoCumsum())


class OneTag(Grouping):
    """Everything under one tag, convex or not, with no grouper at all."""

    def partition(self, exported_program: Any) -> PartitionResult:
        for node in exported_program.graph.nodes:
            if node.op == "call_function" and "cumsum" not in node.name:
                node.meta["delegation_tag"] = "all"
        return PartitionResult(
            tagged_exported_program=exported_program,
            partition_tags={"all": DelegationSpec("XnnpackBackend", [])},
        )


@pytest.fixture(scope="module")
def cumsum() -> Any:
    return edge_program(Cumsum(), (torch.randn(3, 8),), Grouping())


@pytest.mark.parametrize("stock", [Grouping, FromList])
def test_a_partitioner_that_groups_with_fx(cumsum: Any, stock: Any) -> None:
    graph, claims, refusals = answers(cumsum, lambda options: stock())
    wanted = {op.id for op in graph.ops if op.kind != "aten.cumsum"}
    assert tagged(cumsum, stock()) == wanted
    assert {op for claim in claims for op in claim.ops} == wanted
    assert all(len(claim.ops) == 1 and not claim.divisible for claim in claims)
    assert {graph.op(op).kind for op in refusals} == {"aten.cumsum"}
    assert {row.reason.detail for row in refusals.values()} == {"cumsum has no kernel"}


def test_what_a_reporter_is_told_is_the_reason(cumsum: Any) -> None:
    _, _, refusals = answers(cumsum, lambda options: Grouping(reporter=True))
    for row in refusals.values():
        assert row.reason.detail.startswith("rank 7 dims are too many")
        assert row.reason.code is Code.SHAPE


def test_a_naive_partitioner_makes_one_divisible_claim(cumsum: Any) -> None:
    graph, claims, refusals = answers(cumsum, lambda options: OneTag())
    (claim,) = claims
    assert claim.divisible
    assert claim.ops == {op.id for op in graph.ops if op.kind != "aten.cumsum"}
    assert not graph.is_convex(claim.ops)
    assert {row.reason.code for row in refusals.values()} == {Code.UNKNOWN_OP}


def test_specs_come_along(cumsum: Any) -> None:
    from executorch.exir.backend.compile_spec_schema import CompileSpec

    class Specific(OneTag):
        def partition(self, exported_program: Any) -> PartitionResult:
            result = super().partition(exported_program)
            spec = DelegationSpec("XnnpackBackend", [CompileSpec("fast", b"\1")])
            return PartitionResult(result.tagged_exported_program, {"all": spec})

    _, claims, _ = answers(cumsum, lambda options: Specific())
    assert claims[0].specs == (("fast", b"\1"),)


def test_another_backends_tags_are_an_error(cumsum: Any) -> None:
    with pytest.raises(ValueError, match="mine tags for XnnpackBackend, but metal is MetalBackend"):
        answers(cumsum, lambda options: OneTag(), delegate_id="MetalBackend")


def test_quadratic_grouping_is_never_entered(cumsum: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    def never(*_: Any) -> Any:
        raise AssertionError("a transitive closure was built")

    for module in (fx_partitioner, group_partitioner):
        monkeypatch.setattr(module, "_DependencyViewer", never)
    with pytest.raises(AssertionError, match="transitive closure"):
        tagged(cumsum, Grouping())
    for make in (Grouping, FromList, XnnpackPartitioner):
        answers(cumsum, lambda options, make=make: make())


def state() -> list[Any]:
    names = sorted(n for n in logging.root.manager.loggerDict if n.startswith("executorch"))
    loggers = [logging.root, *map(logging.getLogger, names)]
    configs = XnnpackPartitioner().target_partitioner_configs.values()
    return [
        [(each.level, list(each.handlers), each.propagate, each.disabled) for each in loggers],
        logging.root.manager.disable,
        fx_partitioner._DependencyViewer,
        group_partitioner._DependencyViewer,
        CapabilityBasedPartitioner.propose_partitions,
        group_partitioner.GroupBasedPartitioner.propose_partitions,
        WhyNoPartitionReporter.report_reject,
        [type(config).check_constraints for config in configs],
    ]


@pytest.mark.parametrize("fail", [False, True])
def test_everything_is_put_back(cumsum: Any, fail: bool, caplog: Any) -> None:
    logging.getLogger("executorch.toy").setLevel(logging.INFO)
    logging.disable(logging.WARNING)
    try:
        before = state()
        if fail:
            with pytest.raises(RuntimeError, match="no SDK"):
                answers(cumsum, lambda options: Grouping(fail=True))
        else:
            answers(cumsum, lambda options: Grouping())
            answers(cumsum, lambda options: XnnpackPartitioner())
        assert state() == before
    finally:
        logging.disable(logging.NOTSET)
        logging.getLogger("executorch.toy").setLevel(logging.NOTSET)
    assert not caplog.records, "nothing of it reaches the user's handlers"


def test_a_stock_partitioners_own_checks_are_put_back() -> None:
    stock = XnnpackPartitioner()
    with watching(stock):
        assert any(
            "check_constraints" in vars(c) for c in stock.target_partitioner_configs.values()
        )
    assert not any(
        "check_constraints" in vars(c) for c in stock.target_partitioner_configs.values()
    )
