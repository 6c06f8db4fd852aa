"""Less work in XNNPACK's compiler for the same delegates. All that reaches inside it is here.

For ExecuTorch 1.5.1. The compiler builds the graphs of its patterns, with an export for each, when
it is first asked for any delegate: seconds in every process. And it writes whole graphs as text for
debug messages that nobody sees.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from cede.lowering.inside_executorch import unknown_version
from cede.lowering.inside_executorch.patching import patched

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from contextlib import AbstractContextManager

    from torch.fx import GraphModule

    from cede.lowering.inside_executorch.patching import Patch

BILINEAR = {"aten.upsample_bilinear2d.vec"}
"""All ops of the bilinear patterns: a match of one is left as it is."""

ATTENTION = {"aten.bmm.default", "aten._softmax.default", "aten.any.dim", "aten.where.self"}
"""Ops that every attention pattern has."""

_PRODUCTS = {"aten.mm.default", "aten.addmm.default", "aten.bmm.default"}


def shortcuts() -> AbstractContextManager[None]:
    """A context in which delegates are compiled with less work, where the version is known."""
    return patched("xnnpack", lambda: [] if unknown_version() else _patches())


def _patches() -> list[Patch]:
    from executorch.backends.xnnpack import _passes as passes

    return [
        (passes.ConvertToUpsampleBilinear2d, "call", _traced_unless(lambda ops: False)),
        (passes.ConvertToSDPAPass, "call", _traced_unless(lambda ops: ops >= ATTENTION)),
        (passes.ConvertToLinearPass, "call", _traced_unless(lambda ops: bool(ops & _PRODUCTS))),
    ]


def _traced_unless(matters: Callable[[set[str]], bool]) -> Callable[[Any], Any]:
    """Leave of a pass, for a graph with ops that don't matter to it, the trace that ends it."""

    def make(stock: Any) -> Any:
        def call(self: Any, module: GraphModule) -> Any:
            from executorch.exir.pass_base import ExportPass

            if matters(set(_names(module))):
                return stock(self, module)
            return ExportPass.call(self, module)

        return call

    return make


def _names(module: GraphModule) -> Iterator[str]:
    for node in module.graph.nodes:
        if node.op == "call_function":
            yield getattr(node.target, "__name__", "")
