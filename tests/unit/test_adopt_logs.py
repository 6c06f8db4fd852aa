"""Reasons that a stock partitioner only logs."""

from __future__ import annotations

import logging
from typing import Any

import pytest
import torch
from executorch.exir import to_edge
from executorch.exir.backend.canonical_partitioners.pattern_op_partitioner import (
    generate_partitions_from_list_of_nodes,
)
from executorch.exir.backend.partitioner import DelegationSpec, Partitioner, PartitionResult
from torch.fx.passes.operator_support import OperatorSupportBase

from cede.facts import read_graph
from cede.partitioners.adopt import Adopted
from cede.types import Claim, Code, Program, Refusal


class Support(OperatorSupportBase):
    def is_node_supported(self, submodules: Any, node: torch.fx.Node) -> bool:
        if node.op != "call_function" or "relu" in str(node.target):
            return node.op == "call_function"
        logging.info(  # noqa: LOG015  (as the stock partitioners do)
            "[Some Partitioner] Due to [no operator implementation], skipping %s", node
        )
        return False


class Logs(Partitioner):
    """Says its reasons on the root logger, with the node behind."""

    def partition(self, exported_program: Any) -> PartitionResult:
        tags = {}
        for group in generate_partitions_from_list_of_nodes(
            exported_program.graph_module, op_support=Support()
        ):
            tags[f"t{group.id}"] = DelegationSpec("Some", [])
            for node in group.nodes:
                node.meta["delegation_tag"] = f"t{group.id}"
        return PartitionResult(exported_program, tags)


def answers(make: Any, delegate: str, program: Any) -> list[Claim | Refusal]:
    adopted = Adopted(name="some", backend="some", delegate_id=delegate, make=make)
    view = Program(graph=read_graph(program), exported=program, options=None)
    return list(adopted.claim(view))


def edge(module: torch.nn.Module, *args: torch.Tensor) -> Any:
    return to_edge(torch.export.export(module.eval(), args)).exported_program()


def test_a_logged_reason_is_given_to_the_op_that_was_asked_about(
    capfd: pytest.CaptureFixture[str],
) -> None:
    program = edge(torch.nn.Sequential(torch.nn.ReLU(), torch.nn.Tanh()), torch.randn(2))
    given = answers(lambda options: Logs(), "Some", program)
    [claim] = [answer for answer in given if isinstance(answer, Claim)]
    [refusal] = [answer for answer in given if isinstance(answer, Refusal)]
    assert claim.ops == {"aten_relu_default"}
    assert refusal.op == "aten_tanh_default"
    assert refusal.reason.code is Code.UNKNOWN_OP
    assert refusal.reason.detail == "no operator implementation"
    assert "skipping" not in capfd.readouterr().err


class Prints(Support):
    """Prints its reasons, as ExecuTorch's OpenVINO support check does."""

    def is_node_supported(self, submodules: Any, node: torch.fx.Node) -> bool:
        if "tanh" in node.name:
            print("Op not supported: ", node.target.__name__)
            return False
        return node.op == "call_function"


class Printed(Logs):
    def partition(self, exported_program: Any) -> PartitionResult:
        groups = generate_partitions_from_list_of_nodes(
            exported_program.graph_module, op_support=Prints()
        )
        print("done")
        for node in groups[0].nodes:
            node.meta["delegation_tag"] = "t"
        return PartitionResult(exported_program, {"t": DelegationSpec("Some", [])})


def test_a_printed_reason_is_given_to_the_op_and_stdout_stays_clean(
    capfd: pytest.CaptureFixture[str],
) -> None:
    program = edge(torch.nn.Sequential(torch.nn.ReLU(), torch.nn.Tanh()), torch.randn(2))
    given = answers(lambda options: Printed(), "Some", program)
    [refusal] = [answer for answer in given if isinstance(answer, Refusal)]
    assert refusal.reason.code is Code.UNKNOWN_OP
    assert refusal.reason.detail == "Op not supported: aten.tanh.default"
    written = capfd.readouterr()
    assert (written.out, written.err) == ("", "done\n")


def test_core_ml_is_adopted_as_it_stands() -> None:
    coreml = pytest.importorskip("executorch.backends.apple.coreml.partition")
    module = torch.nn.Sequential(torch.nn.Conv2d(3, 4, 3), torch.nn.ReLU(), torch.nn.Softmax(1))
    program = edge(module, torch.randn(1, 3, 8, 8))
    given = answers(lambda options: coreml.CoreMLPartitioner(), "CoreMLBackend", program)
    claimed = {op for answer in given if isinstance(answer, Claim) for op in answer.ops}
    stock = edge(module, torch.randn(1, 3, 8, 8))
    coreml.CoreMLPartitioner().partition(stock)
    tagged = {
        node.name
        for node in stock.graph.nodes
        if node.op == "call_function" and "delegation_tag" in node.meta
    }
    assert claimed == tagged != set()


class Keeps(Support):
    """Knows its reasons before it is asked, as ExecuTorch's MLX support check does."""

    def __init__(self, graph_module: torch.fx.GraphModule) -> None:
        self._unsupported_reason = {
            node: "tanh needs rank 2" for node in graph_module.graph.nodes if "tanh" in node.name
        }


class Table(Logs):
    def partition(self, exported_program: Any) -> PartitionResult:
        groups = generate_partitions_from_list_of_nodes(
            exported_program.graph_module, op_support=Keeps(exported_program.graph_module)
        )
        for node in groups[0].nodes:
            node.meta["delegation_tag"] = "t"
        return PartitionResult(exported_program, {"t": DelegationSpec("Some", [])})


def test_a_reason_that_stands_in_a_table_is_read_from_there() -> None:
    program = edge(torch.nn.Sequential(torch.nn.ReLU(), torch.nn.Tanh()), torch.randn(2))
    given = answers(lambda options: Table(), "Some", program)
    [refusal] = [answer for answer in given if isinstance(answer, Refusal)]
    assert (refusal.reason.code, refusal.reason.detail) == (Code.SHAPE, "tanh needs rank 2")


def test_mlx_still_keeps_its_reasons_there() -> None:
    import importlib.util
    from pathlib import Path

    found = importlib.util.find_spec("executorch")
    assert found is not None
    assert found.submodule_search_locations
    folder = Path(next(iter(found.submodule_search_locations)))
    source = (folder / "backends" / "mlx" / "partitioner.py").read_text()
    assert "self._unsupported_reason: Dict[torch.fx.Node, str]" in source
    assert "generate_partitions_from_list_of_nodes(" in source
