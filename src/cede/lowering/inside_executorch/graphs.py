"""Graph modules whose Python code is made when somebody calls them, and patterns that can't match.

`GraphModule.recompile` writes and compiles source after every pass, hundreds of times in a
lowering; nearly none of it is ever called.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from torch.fx import GraphModule
from torch.fx.graph import _PyTreeCodeGen
from torch.fx.passes.utils.matcher_utils import SubgraphMatcher

if TYPE_CHECKING:
    from cede.lowering.inside_executorch.patching import Patch

_STOCK = GraphModule.recompile
_CODE = GraphModule.__dict__["code"]


class _Later:
    """The `PythonCode` that `recompile` gives, made when it is looked at."""

    def __init__(self, module: GraphModule) -> None:
        self._module = module

    def __getattr__(self, name: str) -> Any:
        return getattr(_compiled(self._module), name)


def _compiled(module: GraphModule) -> Any:
    kind = type(module)
    for name in ("code", "__str__"):
        if name in kind.__dict__:
            delattr(kind, name)
    return _STOCK(module)


class _Forward:
    """The `forward` of a module whose code is not made yet: looking at it makes it."""

    def __get__(self, module: GraphModule | None, kind: type | None = None) -> Any:
        if module is None:
            return self
        _compiled(module)
        return module.forward


def _code(self: GraphModule) -> Any:
    _compiled(self)
    return _CODE.fget(self)


def _text(self: GraphModule) -> str:
    _compiled(self)
    return str(self)


def _recompile_later(self: GraphModule) -> Any:
    kind: Any = type(self)  # every instance has a class of its own
    codegen = self._graph._codegen
    if isinstance(codegen, _PyTreeCodeGen):
        self._in_spec = codegen.pytree_info.in_spec
        self._out_spec = codegen.pytree_info.out_spec
    kind.forward = _Forward()
    kind.code = property(_code)
    kind.__str__ = _text
    return _Later(self)


def _match_if_possible(stock: Any) -> Any:
    def match(self: SubgraphMatcher, graph: Any, *args: Any, **kwargs: Any) -> Any:
        wanted = {n.target for n in self.pattern.nodes if n.op == "call_function"}
        if not wanted <= {n.target for n in graph.nodes}:
            return []  # a node of a pattern matches none with another target
        return stock(self, graph, *args, **kwargs)

    return match


def patches() -> list[Patch]:
    """Code on demand; no search for a pattern that has an op which the graph lacks."""
    return [
        (GraphModule, "recompile", lambda _: _recompile_later),
        (SubgraphMatcher, "match", _match_if_possible),
    ]
