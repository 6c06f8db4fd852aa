"""The fused patterns of ExecuTorch's Vulkan compiler. All that reaches inside it is here.

The compiler builds the graphs of its patterns anew, with an export each, for every question and
for every delegate: seconds each time. They are the same each time, so they are kept.
"""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, Any

from executorch.backends.vulkan import patterns
from executorch.exir.dialects._ops import ops as exir_ops
from torch.fx import Node

if TYPE_CHECKING:
    from collections.abc import Iterator

_TRANSPOSES = (exir_ops.edge.aten.t_copy.default, exir_ops.edge.aten.permute_copy.default)
_PRODUCTS = (exir_ops.edge.aten.mm.default, exir_ops.edge.aten.addmm.default)


def keep_graphs() -> None:
    """Build each pattern's graphs once in this process; call it as often as you like."""
    for entry in patterns.fusable_patterns.values():
        make = entry.get_graphs_fn
        if make is not None and not hasattr(make, "cache_info"):
            entry.get_graphs_fn = lru_cache(maxsize=1)(make)


def together(graph_module: Any) -> Iterator[list[str]]:
    """Names of the nodes that the compiler turns into one op: apart, it may have none for them.

    A match of a pattern, and the transposed weight of a matrix product.
    """
    keep_graphs()
    for match in patterns.get_all_fusable_subgraphs(graph_module):
        # one of attention with a cache holds sizes as well, which are numbers where they don't vary
        yield [node.name for node in match.all_nodes if isinstance(node, Node)]
    for node in graph_module.graph.nodes:
        users = list(node.users)
        if node.target in _TRANSPOSES and len(users) == 1 and users[0].target in _PRODUCTS:
            yield [node.name, users[0].name]
