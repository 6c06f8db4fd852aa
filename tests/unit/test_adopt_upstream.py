"""What `adopt` relies on inside torch and ExecuTorch: a failure here means upstream changed."""

from __future__ import annotations

import inspect
import logging

from executorch.exir.backend.canonical_partitioners import config_partitioner, group_partitioner
from executorch.exir.backend.partitioner import DelegationSpec, Partitioner, PartitionResult
from executorch.exir.backend.utils import WhyNoPartition, WhyNoPartitionReporter
from torch.fx import Graph, GraphModule
from torch.fx.passes.infra import partitioner as fx_partitioner
from torch.fx.passes.operator_support import OperatorSupportBase
from torch.nn import Module


def parameters(function: object) -> list[str]:
    return list(inspect.signature(function).parameters)  # type: ignore[arg-type]


def test_groupers() -> None:
    fx, grouped = fx_partitioner.CapabilityBasedPartitioner, group_partitioner.GroupBasedPartitioner
    assert parameters(fx.propose_partitions) == ["self"]
    assert parameters(grouped.propose_partitions) == ["self"]
    assert parameters(fx._is_node_supported) == ["self", "node"]
    assert grouped._is_node_supported is not None
    assert parameters(fx_partitioner.Partition.__init__)[:3] == ["self", "id", "nodes"]
    for module in (fx_partitioner, group_partitioner):
        assert parameters(module._DependencyViewer.__init__) == ["self", "graph_module"]
        assert "_DependencyViewer(" in inspect.getsource(module)


def test_groupers_hold_what_is_read_from_them() -> None:
    class All(OperatorSupportBase):
        def is_node_supported(self, submodules: object, node: object) -> bool:
            return True

    graph = Graph()
    graph.output(graph.placeholder("x"))
    module = GraphModule(Module(), graph)
    (first, _) = list(graph.nodes)
    for made in (
        fx_partitioner.CapabilityBasedPartitioner(module, All()),
        group_partitioner.GroupBasedPartitioner(module, All(), node_groups=[[first]]),
    ):
        assert made.graph_module is module
        assert made._is_node_supported(first) is True
    assert [list(group) for group in made.node_groups] == [[first]]


def test_configs_and_reasons() -> None:
    stock = config_partitioner.ConfigerationBasedPartitioner
    assert "target_partitioner_configs" in inspect.getsource(stock.__init__)
    assert parameters(config_partitioner.PartitionerConfig.check_constraints) == [
        "self", "node", "ep",
    ]  # fmt: skip
    assert config_partitioner.format_target_name("aten.add.Tensor") == "add.Tensor"
    assert "config.check_constraints(node, ep)" in inspect.getsource(stock)
    assert parameters(WhyNoPartitionReporter.report_reject) == ["self", "node", "reason"]


def test_why_hands_itself_to_its_logger() -> None:
    records = []

    class Keeps(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            records.append(record.msg)

    logger = logging.Logger("x", logging.DEBUG)  # noqa: LOG001 (one that nobody else has)
    logger.addHandler(Keeps())
    why = WhyNoPartition(logger)
    graph = Graph()
    node = graph.placeholder("x")
    why(node, "because")
    assert records == [why]
    assert (why.node, why.reason) == (node, "because")


def test_answers_of_a_stock_partitioner() -> None:
    assert parameters(Partitioner.partition) == ["self", "exported_program"]
    assert parameters(Partitioner.ops_to_not_decompose) == ["self", "ep"]
    assert DelegationSpec._fields == ("backend_id", "compile_specs")
    assert parameters(PartitionResult)[:2] == ["tagged_exported_program", "partition_tags"]
