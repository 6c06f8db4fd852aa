"""Names for parts of a program that are no module: `with cede.layer("attention"):`."""

from __future__ import annotations

import sys
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

    import torch.fx

META_KEY = "cede_layer"
"""Where the path stands in `node.meta["custom"]`."""

# A plain list: dynamo can't trace a ContextVar, and torch.export runs in one thread at a time.
_names: list[str] = []


@contextmanager
def layer(name: str, graph_module: torch.fx.GraphModule | None = None) -> Iterator[str]:
    """Name the ops created inside, in a module's `forward` or in a pass.

    Contexts nest: the names are joined by dots. Under `torch.export.export` the path goes with each
    node through decomposition and lowering (`torch.fx.traceback.annotate`), and the nodes of a
    pass that traces (an `ExportPass`, a `Transformer`) get it in the same way. A pass that inserts
    nodes into a graph by hand names its graph module. The path stands in the delegation table and
    in every message about the op. Outside tracing it costs next to nothing.

    Args:
        name: the part's name, such as "attention" or "rope".
        graph_module: nodes created in its graph inside the context get the path.

    Yields:
        The whole path, such as "decoder.attention".

    Raises:
        ValueError: an empty name.
    """
    if not name:
        raise ValueError("cede.layer needs a name")
    _names.append(name)
    path = ".".join(_names)
    try:
        if "torch" in sys.modules:
            from torch.fx import traceback

            # Without preserve_node_meta a tracer drops the annotation. It must be the inner one: on
            # leaving it puts back a shallow copy, which annotate has written into.
            with traceback.annotate({META_KEY: path}), traceback.preserve_node_meta():
                if graph_module is None:
                    yield path
                else:
                    with _marking(graph_module, path):
                        yield path
        else:
            yield path
    finally:
        _names.pop()


@contextmanager
def _marking(graph_module: torch.fx.GraphModule, path: str) -> Iterator[None]:
    def mark(node: torch.fx.Node) -> None:
        node.meta.setdefault("custom", {})[META_KEY] = path

    graph_module._register_create_node_hook(mark)
    try:
        yield
    finally:
        graph_module._unregister_create_node_hook(mark)


def current_layer() -> str:
    """The path of the `cede.layer` contexts around the caller, "" outside of any."""
    return ".".join(_names)
