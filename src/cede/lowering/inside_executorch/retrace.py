"""Passes that need not trace a whole graph anew.

An `ExportPass` ends by interpreting the graph node by node into a new one, so that the values that
nodes stand for (`meta["val"]`) fit what the pass changed. That is done a dozen times for a program
and again for each of its delegates, mostly after a pass that changed nothing. Here the graph stays,
and only the values that follow from a change are made anew.
"""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, Any
from weakref import WeakKeyDictionary

import torch
from executorch.exir.pass_base import ExportPass, _ExportPassBase
from executorch.exir.pass_manager import ExportedProgramPassManager
from executorch.exir.passes.replace_aten_with_edge_pass import (
    OpReplacePass,
    aten_to_edge,
    should_lower_to_edge,
)
from executorch.exir.program import _program
from torch._export.pass_base import _ExportPassBaseDeprecatedDoNotUse
from torch._export.passes import replace_view_ops_with_view_copy_ops_pass as views
from torch.export import ExportedProgram
from torch.fx import Graph, GraphModule
from torch.fx.passes.infra.pass_base import PassResult

from cede.lowering.inside_executorch.idle import is_idle, noted, with_origins
from cede.lowering.inside_executorch.values import Fitting, Unfit, fitting, refresh

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from torch.fx import Node

    from cede.lowering.inside_executorch.patching import Patch

_fitting: WeakKeyDictionary[Graph, Fitting] = WeakKeyDictionary()
_following = 0
_unchecked = 0


@contextmanager
def following(module: GraphModule) -> Iterator[None]:
    """Follow the changes of passes from here; the values of the graph must fit now."""
    global _following
    _fitting[module.graph] = fitting(module)
    _following += 1
    try:
        yield
    finally:
        _following -= 1
        if not _following:
            _fitting.clear()


@contextmanager
def compiling(module: GraphModule) -> Iterator[None]:
    """`following` in the compiler of a delegate, where no pass is checked."""
    global _unchecked
    _unchecked += 1
    try:
        with following(module):
            yield
    finally:
        _unchecked -= 1


def _call(stock: Callable[..., Any]) -> Callable[..., Any]:
    def call(self: Any, module: GraphModule) -> Any:
        if not _following:
            return stock(self, module)
        before = _fitting.get(module.graph)
        result = None
        if before is not None and isinstance(self, ExportPass):
            with_origins(module)
            try:
                if type(self) is OpReplacePass:
                    refresh(module, before)
                    result = PassResult(_replaced(module), True)
                elif is_idle(self, module) and noted(module):
                    refresh(module, before)
                    result = PassResult(module, True)
            except Unfit:
                pass
        if result is None:
            result = stock(self, module)
        made = result.graph_module
        _fitting[made.graph] = fitting(made)
        return result

    return call


def _replaced(module: GraphModule) -> GraphModule:
    """The same graph of edge operators, its nodes named after them."""
    graph = Graph()
    to: dict[Node, Node] = {}
    for node in module.graph.nodes:
        target = node.target
        if node.op == "get_attr" and isinstance(getattr(module, str(target), None), GraphModule):
            raise Unfit
        if node.op == "call_function" and should_lower_to_edge(target):
            target = aten_to_edge(target)
        named = None
        if isinstance(target, torch._ops.OpOverload):
            named = graph._target_to_str(target.overloadpacket.__name__)
        elif node.op == "output":
            named = "output"
        args, kwargs = (_mapped(given, to) for given in (node.args, node.kwargs))
        made = graph.create_node(node.op, target, args, kwargs, named, node.type)
        made.meta = dict(node.meta)
        to[node] = made
    result = GraphModule(module, graph)
    result.meta.update(module.meta)
    return result


def _mapped(given: Any, to: dict[Node, Node]) -> Any:
    return torch.fx.node.map_arg(given, lambda node: to[node])


def _call_views(stock: Callable[..., Any]) -> Callable[..., Any]:
    def call(self: Any, module: GraphModule) -> Any:
        before = _fitting.get(module.graph) if _following else None
        if before is None or type(self) is not views.ReplaceViewOpsWithViewCopyOpsPass:
            return stock(self, module)
        calls = [n for n in module.graph.nodes if n.op == "call_function"]
        if not all(isinstance(n.target, torch._ops.OpOverload) for n in calls if _schema(n)):
            return stock(self, module)
        old = {node: node.target for node in calls}
        for node in calls:
            node.target = _copying(node.target)
        try:
            refresh(module, before)
        except Unfit:
            for node, target in old.items():
                node.target = target
            return stock(self, module)
        _fitting[module.graph] = fitting(module)
        return PassResult(module, True)

    return call


def _schema(node: Node) -> bool:
    return hasattr(node.target, "_schema") or isinstance(
        node.target, torch._ops.HigherOrderOperator
    )


def _copying(target: Any) -> Any:
    if not isinstance(target, torch._ops.OpOverload):
        return target
    known = views._NON_FUNCTIONAL_OPS_TO_FUNCTIONAL_OPS.get(target)
    return known or views.get_view_copy_of_view_op(target._schema) or target


def _followed(stock: Callable[..., Any]) -> Callable[..., Any]:
    def generate(config: Any, program: ExportedProgram, *args: Any, **kwargs: Any) -> Any:
        with following(program.graph_module):
            return stock(config, program, *args, **kwargs)

    return generate


def _emitted(stock: Callable[..., Any]) -> Callable[..., Any]:
    def to_executorch(self: Any, *args: Any, **kwargs: Any) -> Any:
        with following(self.exported_program(next(iter(self.methods))).graph_module):
            for name in self.methods:
                module = self.exported_program(name).graph_module
                _fitting[module.graph] = fitting(module)
            return stock(self, *args, **kwargs)

    return to_executorch


def _unless_itself(stock: Callable[..., None]) -> Callable[..., None]:
    def copy_module(to: GraphModule, module: GraphModule) -> None:
        if to is not module:  # where no pass had anything to do; stock would lose its children
            stock(to, module)

    return copy_module


def _unless_compiling(stock: Callable[..., Any]) -> Callable[..., Any]:
    def check(self: Any, *args: Any) -> None:
        if not _unchecked:
            stock(self, *args)

    return check


def patches() -> list[Patch]:
    """Traces of passes, and the checks around each within the compiler of a delegate."""
    return [
        (_ExportPassBase, "call", _call),
        (_ExportPassBaseDeprecatedDoNotUse, "call", _call_views),
        (_program, "_generate_edge_program", _followed),
        (_program.EdgeProgramManager, "to_executorch", _emitted),
        (_program, "_copy_module", _unless_itself),
        (ExportedProgramPassManager, "check", _unless_compiling),
        (ExportedProgram, "_validate", _unless_compiling),
    ]
