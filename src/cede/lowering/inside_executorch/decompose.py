"""Decompositions that have nothing to decompose, and the list of operators that each asks for."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any
from weakref import WeakKeyDictionary

import torch
from executorch.exir.graph_module import contains_any_call_fn_target_op
from torch._C import DispatchKey
from torch._ops import OperatorBase
from torch.export import ExportedProgram, decomp_utils, exported_program

from cede.lowering.contents import has_modules
from cede.lowering.inside_executorch.idle import is_traced

if TYPE_CHECKING:
    from collections.abc import Callable

    from torch.fx import Graph, Node

    from cede.lowering.inside_executorch.patching import Patch

_functional: WeakKeyDictionary[Graph, dict[Node, set[str]]] = WeakKeyDictionary()
"""What came out of a decomposition, and which facts of each node."""

_composite: dict[str, Any] = {}


def _run_decompositions(stock: Callable[..., Any]) -> Callable[..., Any]:
    def run(self: ExportedProgram, table: Any = None, *args: Any, **kwargs: Any) -> Any:
        # What came out of one run is functional; another changes nothing but ops of its table.
        again = bool(table) and not args and not kwargs and self.graph in _functional
        # within branches and loops a run takes more operators apart than its table has
        again = again and not has_modules(self) and is_traced(self.graph_module)
        if again and not contains_any_call_fn_target_op(self.graph_module, table):
            _forget_notes(self.graph)
            return self
        made = stock(self, table, *args, **kwargs)
        _functional[made.graph] = {node: set(node.meta) for node in made.graph.nodes}
        return made

    return run


def _forget_notes(graph: Graph) -> None:
    """Drop what partitioners wrote on nodes while they were asked: a run would lose it, too."""
    for node, known in _functional[graph].items():
        for key in node.meta.keys() - known:
            del node.meta[key]


def _all_composite(stock: Callable[[], set[Any]]) -> Callable[[], set[Any]]:
    """The same operators as long as none was registered: asking takes a walk over all of torch."""

    def collect() -> set[Any]:
        key = "CompositeImplicitAutograd"
        now = (tuple(torch.ops._dir), torch._C._dispatch_get_registrations_for_dispatch_key(key))
        if _composite.get("when") != now:
            _composite.update(when=now, ops=stock())
        return set(_composite["ops"])

    return collect


def _py_impl(stock: Callable[..., Any]) -> Callable[..., Any]:
    """Without the annotations that the stock one evaluates thousands of times."""

    def py_impl(self: Any, key: Any) -> Any:
        if not isinstance(key, DispatchKey) or key == DispatchKey.Python or key in self.py_kernels:
            return stock(self, key)

        def register(kernel: Any) -> Any:
            if key in self.py_kernels:
                return stock(self, key)(kernel)
            self.py_kernels[key] = kernel
            self._dispatch_cache.clear()
            return kernel

        return register

    return py_impl


def forget() -> None:
    """Let go of all graphs."""
    _functional.clear()


def patches() -> list[Patch]:
    """Decompositions that come after one."""
    return [
        (ExportedProgram, "run_decompositions", _run_decompositions),
        (exported_program, "_collect_all_valid_cia_ops", _all_composite),
        (decomp_utils, "_collect_all_valid_cia_ops", _all_composite),
        (OperatorBase, "py_impl", _py_impl),
    ]
