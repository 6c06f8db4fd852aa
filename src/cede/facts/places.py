"""Where an op comes from: module path, source line, layer, operator before decomposition."""

from __future__ import annotations

import os
import re
from functools import lru_cache
from typing import TYPE_CHECKING

import torch

from cede.layers import META_KEY

if TYPE_CHECKING:
    from torch.fx import Node

NODE_KEY = "cede_node"
"""Where `node.meta["custom"]` has the name of the exported program's node, if it was noted."""

_FRAME = re.compile(r'File "([^"]+)", line (\d+)')
_OPERATOR = re.compile(r"[a-z]\w*\.\w+\.\w+")
# Some of torch's own passes leave a path relative to its parent.
_TORCH = (os.path.dirname(torch.__file__) + os.sep, f"torch{os.sep}", "<")


def module_of(node: Node) -> str:
    """Path of the innermost module whose `forward` made the node, "" at the root or unknown."""
    stack = node.meta.get("nn_module_stack")
    if not stack:
        return ""
    path = next(reversed(stack.values()))[0]
    # A node that a torch pass made has a made-up stack.
    return "" if path.startswith("_empty_nn_module_stack") else _module_path(path)


def layer_of(node: Node) -> str:
    """The `cede.layer` path that the node was made under."""
    custom = node.meta.get("custom")
    return str(custom.get(META_KEY, "")) if isinstance(custom, dict) else ""


def node_of(node: Node) -> str:
    """Name of the exported program's node that became this one, "" unless it was noted there."""
    custom = node.meta.get("custom")
    return str(custom.get(NODE_KEY, "")) if isinstance(custom, dict) else ""


def source_of(node: Node) -> str:
    """ "file.py:12" of the innermost frame outside torch itself, "" if unknown."""
    trace = node.meta.get("stack_trace")
    return _source(trace) if trace else ""


def origin_of(node: Node) -> str:
    """The operator of the exported program that became this node, "" if unknown.

    torch notes for each node the one it was traced from (`NodeSource`); the first of that chain
    with the name of an operator is what the program had.
    """
    found = ""
    sources = node.meta.get("from_node")
    while sources:
        name = str(sources[0].target)
        if _OPERATOR.fullmatch(name):
            found = name
        sources = sources[0].from_node
    return found


@lru_cache(maxsize=4096)
def _source(trace: str) -> str:
    frames = _FRAME.findall(trace)
    for file, line in reversed(frames):
        if not file.startswith(_TORCH):
            return f"{os.path.basename(file)}:{line}"
    return ""


@lru_cache(maxsize=4096)
def _module_path(path: str) -> str:
    # Strict export writes L['self'].layers[0]; the other modes write the plain path.
    path = re.sub(r"^L\['self'\]\.?", "", path)
    path = path.replace("._modules['", ".").replace("']", "")
    return re.sub(r"\[(\d+)\]", r".\1", path).removeprefix("slf.").lstrip(".")
