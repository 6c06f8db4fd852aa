"""ExecuTorch's `GroupBasedPartitioner` with another engine."""

from __future__ import annotations

from typing import TYPE_CHECKING

from cede.fx.capability import CapabilityPartitioner

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from torch.fx import GraphModule, Node
    from torch.fx.passes.operator_support import OperatorSupportBase


class GroupPartitioner(CapabilityPartitioner):
    """Partitions the supported nodes of a graph, and keeps groups of them together.

    A group that can't be in one partition without a cycle is divided. A getitem goes with its
    producer where both are supported, whatever its group.

    Args:
        graph_module: what to partition; it is changed by `fuse_partitions` only.
        operator_support: which nodes are supported.
        allows_single_node_partition: whether a partition may have a single node that computes.
        non_compute_ops: qualified names of functions that don't count as computing.
        allowed_single_node_partition_ops: qualified names of functions that may stand alone.
        node_groups: disjoint groups; nodes of a group that aren't supported are left out of it.

    Raises:
        ValueError: a node is in two groups.
    """

    def __init__(
        self,
        graph_module: GraphModule,
        operator_support: OperatorSupportBase,
        allows_single_node_partition: bool = False,
        non_compute_ops: Sequence[str] | None = None,
        allowed_single_node_partition_ops: Sequence[str] | None = None,
        node_groups: Iterable[Iterable[Node]] | None = None,
    ) -> None:
        super().__init__(
            graph_module,
            operator_support,
            allows_single_node_partition,
            non_compute_ops,
            allowed_single_node_partition_ops,
        )
        self.node_groups = [set(group) for group in node_groups] if node_groups else None
        seen: set[Node] = set()
        for group in self.node_groups or ():
            if twice := seen & group:
                names = ", ".join(sorted(node.name for node in twice))
                raise ValueError(f"{names}: in two groups of node_groups; leave each in one")
            seen |= group

    def _picks(self, supported: set[Node]) -> set[Node]:
        both = super()._picks(supported)
        return {pick for pick in both if pick in supported and pick.all_input_nodes[0] in supported}

    def _groups(self) -> list[set[Node]]:
        return self.node_groups or []
