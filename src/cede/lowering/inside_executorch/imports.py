"""ExecuTorch's import without its slowest seconds.

It reads a data file by YAML's pure Python parser, and it imports torch's inductor for one function
that rewrites ops which most programs don't have.
"""

from __future__ import annotations

import sys
from contextlib import ExitStack, contextmanager
from types import ModuleType
from typing import TYPE_CHECKING, Any

from cede.lowering.inside_executorch.versions import unknown_version

if TYPE_CHECKING:
    from collections.abc import Iterator

_MODULE = "executorch.exir.dialects.edge._ops"
_INDUCTOR = "torch._inductor.fx_passes.post_grad"
_USER = "torch.export._remove_auto_functionalized_pass"


class _Quick:
    """What that module uses of `ruamel.yaml.YAML`, by libyaml."""

    def __init__(self, **_: Any) -> None:
        pass

    def load(self, text: str) -> Any:
        import yaml

        return yaml.load(text, Loader=yaml.CSafeLoader)


@contextmanager
def _quick_yaml() -> Iterator[None]:
    import ruamel.yaml
    import yaml

    namespace = vars(ruamel.yaml)
    before = namespace["YAML"]
    if yaml.__with_libyaml__:
        namespace["YAML"] = _Quick
    try:
        yield
    finally:
        namespace["YAML"] = before


def decompose_auto_functionalized(graph: Any) -> None:
    """Inductor's function of that name; inductor is imported for graphs that it may change."""
    from torch._ops import HigherOrderOperator

    if any(_may_matter(node.target, HigherOrderOperator) for node in graph.nodes):
        from torch._inductor.fx_passes import post_grad

        given: Any = post_grad
        given.decompose_auto_functionalized(graph)


def _may_matter(target: Any, kind: type) -> bool:
    return isinstance(target, kind) and getattr(target, "_name", "") != "executorch_call_delegate"


@contextmanager
def _no_inductor() -> Iterator[None]:
    """Have one function of inductor imported from here, by the one module that needs it."""
    if _INDUCTOR in sys.modules or _USER in sys.modules:
        yield
        return
    instead = ModuleType(_INDUCTOR)
    vars(instead)["decompose_auto_functionalized"] = decompose_auto_functionalized
    sys.modules[_INDUCTOR] = instead
    try:
        import torch.export._remove_auto_functionalized_pass  # noqa: F401
    finally:
        del sys.modules[_INDUCTOR]
    yield


def import_executorch() -> None:
    """Import `executorch.exir`; of what is changed meanwhile, only that one function stays."""
    if _MODULE in sys.modules or unknown_version():
        return
    try:
        with ExitStack() as stack:
            stack.enter_context(_quick_yaml())
            stack.enter_context(_no_inductor())
            import executorch.exir.dialects.edge._ops  # noqa: F401
    except ImportError:
        return  # the caller's own import says what is wrong
