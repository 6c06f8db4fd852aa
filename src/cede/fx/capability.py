"""torch.fx's `CapabilityBasedPartitioner` with another engine."""

from __future__ import annotations

import operator
from functools import cached_property
from typing import TYPE_CHECKING, Any

from torch.fx.passes.infra.partitioner import CapabilityBasedPartitioner

from cede.fx.settled import partitions, settled
from cede.fx.single import weight, without_singles

if TYPE_CHECKING:
    from collections.abc import Sequence

    from torch.fx import GraphModule, Node
    from torch.fx.passes.infra.partitioner import Partition
    from torch.fx.passes.operator_support import OperatorSupportBase


class CapabilityPartitioner(CapabilityBasedPartitioner):
    """Partitions the supported nodes of a graph; takes the place of the class it derives from.

    Partitions are disjoint and can be fused all together; there are as few as possible before
    those of a single node are left out. O(V+E) time and memory, beside what `operator_support`
    takes; it is asked once for each node, the last one first.

    Only without horizontal fusion the base class does the work, in its time.

    Args:
        graph_module: what to partition; it is changed by `fuse_partitions` only.
        operator_support: which nodes are supported.
        allows_single_node_partition: whether a partition may have a single node that computes.
        non_compute_ops: qualified names of functions that don't count as computing
            ("torch.ops.aten.view" and "_operator.getitem" never do).
        allowed_single_node_partition_ops: qualified names of functions that may stand alone.
        skip_horizontal_fusion: whether only nodes that feed one another may share a partition.
    """

    def __init__(
        self,
        graph_module: GraphModule,
        operator_support: OperatorSupportBase,
        allows_single_node_partition: bool = False,
        non_compute_ops: Sequence[str] | None = None,
        allowed_single_node_partition_ops: Sequence[str] | None = None,
        skip_horizontal_fusion: bool = False,
    ) -> None:
        # Not the base class's: it sets these and builds the transitive closure of the graph.
        self.graph_module = graph_module
        self.operator_support = operator_support
        self.allows_single_node_partition = allows_single_node_partition
        self.non_compute_ops = [] if non_compute_ops is None else non_compute_ops
        self.allowed_single_node_partition_ops = (
            [] if allowed_single_node_partition_ops is None else allowed_single_node_partition_ops
        )
        self.skip_horizontal_fusion = skip_horizontal_fusion

    @cached_property
    def dependency_viewer(self) -> Any:  # type: ignore[override]
        """What the base class builds at once, built when asked for. O(V^2) time and memory."""
        return CapabilityBasedPartitioner(
            self.graph_module, self.operator_support
        ).dependency_viewer

    def propose_partitions(self) -> list[Partition]:
        """The partitions, the last one first, their nodes in the order of the graph.

        The values of a partition's nodes count from the end of the graph. A node whose users are
        all getitems has these in its partition, supported or not; where it has none itself, they
        have none. A getitem whose index is computed counts as any other node.
        """
        if self.skip_horizontal_fusion:
            return super().propose_partitions()
        graph, supported, groups = self.graph_module.graph, self._supported(), self._groups()
        picks = self._picks(supported)
        home = settled(graph, supported, picks, groups)
        if not self.allows_single_node_partition:
            compute = set(self.non_compute_ops), set(self.allowed_single_node_partition_ops)
            weights = {node: weight(node, *compute) for node in home}
            home = without_singles(graph, home, weights, picks, set().union(*groups))
        return partitions(graph, home)

    def _supported(self) -> set[Node]:
        submodules = dict(self.graph_module.named_modules())
        return {
            node
            for node in reversed(self.graph_module.graph.nodes)
            if self.operator_support.is_node_supported(submodules, node)
        }

    def _picks(self, supported: set[Node]) -> set[Node]:
        """Getitems that go where their producer goes."""
        return {
            user
            for node in self.graph_module.graph.nodes
            if all(map(_is_getitem, node.users))
            for user in node.users
            if len(user.all_input_nodes) == 1
        }

    def _groups(self) -> list[set[Node]]:
        """Nodes that should share a partition."""
        return []


def _is_getitem(node: Node) -> bool:
    return node.op == "call_function" and node.target is operator.getitem
