"""Decompositions that have nothing to decompose, and the list of operators that each asks for."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any
from weakref import WeakKeyDictionary

import torch
from executorch.exir.program._program import edge_no_decomp_namespace
from torch._C import DispatchKey
from torch._ops import OperatorBase
from torch.export import ExportedProgram, decomp_utils, exported_program

from cede.lowering.contents import has_modules
from cede.lowering.inside_executorch.idle import with_origins

if TYPE_CHECKING:
    from collections.abc import Callable

    from torch.fx import Graph, Node

    from cede.lowering.inside_executorch.patching import Patch


@dataclass(frozen=True, slots=True)
class _Functional:
    """What came out of a run.

    Attributes:
        facts: which each node has.
        settled: operators of the run's table that are still there, with what would take them apart:
            it gave the same operator again.
    """

    facts: dict[Node, set[str]]
    settled: dict[Any, Any]


_functional: WeakKeyDictionary[Graph, _Functional] = WeakKeyDictionary()

_composite: dict[str, Any] = {}


def _run_decompositions(stock: Callable[..., Any]) -> Callable[..., Any]:
    def run(self: ExportedProgram, table: Any = None, *args: Any, **kwargs: Any) -> Any:
        # What came out of one run is functional; another changes nothing but ops of its table.
        again = bool(table) and not args and not kwargs and self.graph in _functional
        # within branches and loops a run takes more operators apart than its table has
        again = again and not has_modules(self)
        if again and not _takes_apart(table, self.graph):
            with_origins(self.graph_module)
            _forget_notes(self.graph)
            return self
        _reshape_behind_kept(self)
        made = stock(self, table, *args, **kwargs)
        facts = {node: set(node.meta) for node in made.graph.nodes}
        left = {node.target for node in facts if node.op == "call_function"}
        known = table or {}
        _functional[made.graph] = _Functional(facts, {op: known[op] for op in left if op in known})
        return made

    return run


def _reshape_behind_kept(program: ExportedProgram) -> None:
    """Let views be copies where ExecuTorch keeps ops whole under names of its own.

    Traced under such a name, attention may give another layout than it did before, with which a
    view behind it fails; a reshape becomes a view or a copy, as the layout wants it.
    """
    nodes = [node for node in program.graph.nodes if node.op == "call_function"]
    if any(getattr(node.target, "namespace", "") == edge_no_decomp_namespace for node in nodes):
        for node in nodes:
            if node.target is torch.ops.aten.view.default:
                node.target = torch.ops.aten.reshape.default


def _takes_apart(table: dict[Any, Any], graph: Graph) -> bool:
    """Whether a run with that table would change what came out of another."""
    settled = _functional[graph].settled
    ops = {node.target for node in graph.nodes if node.op == "call_function"}
    return any(op in table and not _alike(table[op], settled.get(op)) for op in ops)


def _alike(one: Any, other: Any) -> bool:
    """Whether two entries of tables do the same; each table has new ones for composite ops."""
    if isinstance(one, partial) and isinstance(other, partial):
        code = [getattr(each.func, "__code__", None) for each in (one, other)]
        given = [(each.args, each.keywords) for each in (one, other)]
        return code[0] is code[1] is not None and given[0] == given[1]
    return one is other


def _forget_notes(graph: Graph) -> None:
    """Drop what partitioners wrote on nodes while they were asked: a run would lose it, too."""
    for node, known in _functional[graph].facts.items():
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
