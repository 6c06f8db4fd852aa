"""Graphs and constants as text: equal texts, equal contents."""

from __future__ import annotations

import enum
import hashlib
import os
from concurrent.futures import ThreadPoolExecutor
from contextlib import nullcontext
from typing import TYPE_CHECKING, Any

import torch
from torch.fx import Node

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

UNREAD = frozenset(
    (
        "stack_trace", "from_node", "original_aten", "torch_fn", "tensor_meta", "seq_nr", "spec",
        "delegation_tag", "eager_input_vals", "unbacked_bindings", "partitioner_tag",
        "autograd_backward", "desc",
    )
)  # fmt: skip
"""Facts of a node that tell where it came from."""

SYMBOLS = (torch.SymInt, torch.SymFloat, torch.SymBool)

_SMALL = 1 << 24
"""So many bytes of constants are hashed before threads would have started."""


class Opaque(Exception):
    """Something that can't be compared with what will be there next time."""


def digest(parts: Iterable[str]) -> str:
    """SHA-256 over texts, each by its own hash: no two lists of texts run together."""
    whole = hashlib.sha256()
    for part in parts:
        whole.update(hashlib.sha256(part.encode()).digest())
    return whole.hexdigest()


def nodes(graph: torch.fx.Graph) -> Iterator[str]:
    """Every node with its arguments, its value's shape, dtype and strides, and its notes."""
    for node in graph.nodes:
        yield f"{node.op} {node.name} {_target(node)} {plain((node.args, node.kwargs))}"
        yield value(node.meta.get("val"))
        for key in sorted(node.meta.keys() - UNREAD - {"val"}):
            yield f"{key} {plain(node.meta[key])}"


def constants(held: Mapping[str, Any]) -> Iterator[str]:
    """Every constant by name, with the SHA-256 of its bytes.

    Hashing lets go of the interpreter, so that several are hashed at a time.
    """
    names = sorted(held)
    size = sum(getattr(each, "nbytes", 0) for each in held.values())
    workers = os.cpu_count() if size > _SMALL else 1
    with ThreadPoolExecutor(workers) if workers != 1 else nullcontext() as pool:
        found = (map if pool is None else pool.map)(_bytes, [held[name] for name in names])
        for name, text in zip(names, found, strict=True):
            yield f"{name} {text}"


def views(held: Mapping[str, Any]) -> Iterator[str]:
    """Names of the constants that lie in one memory, and where."""
    found: dict[int, list[str]] = {}
    for name in sorted(held):
        if type(held[name]) not in (torch.Tensor, torch.nn.Parameter):
            continue
        storage = held[name].untyped_storage()
        if storage.nbytes():
            place = f"{name}+{held[name].storage_offset()}"
            found.setdefault(storage.data_ptr(), []).append(place)
    yield from (" ".join(places) for places in found.values() if len(places) > 1)


def _target(node: Node) -> str:
    target = node.target
    if isinstance(target, str):
        return target
    return f"{getattr(target, '__module__', '')}.{getattr(target, '__name__', target)}"


def plain(value: Any) -> str:
    """A plain value, an operator, a class, or a collection of them. Raises Opaque for others."""
    if isinstance(value, dict):
        return f"{{{', '.join(f'{plain(k)}: {plain(v)}' for k, v in value.items())}}}"
    if isinstance(value, (tuple, list)):
        return f"{type(value).__name__}({', '.join(map(plain, value))})"
    if isinstance(value, Node):
        return f"%{value.name}"
    if isinstance(value, slice):
        return f"slice{plain((value.start, value.stop, value.step))}"
    if callable(value) and hasattr(value, "__qualname__"):  # by what a module was called
        return f"{value.__module__}.{value.__qualname__}"
    kinds = (str, int, float, bool, bytes, type(None), enum.Enum, torch.dtype, torch.device)
    if isinstance(value, (*kinds, torch.memory_format, torch.layout, *SYMBOLS)):
        return repr(value)
    if isinstance(value, (torch._ops.OpOverload, torch._ops.OpOverloadPacket)):
        return str(value)
    raise Opaque


def value(given: Any) -> str:
    """What a node stands for: dtype, shape, strides, layout and device of tensors."""
    if isinstance(given, torch.Tensor):
        order = given.stride() if given.layout is torch.strided else ""
        return f"{given.dtype} {tuple(given.shape)} {order} {given.layout} {given.device}"
    if isinstance(given, (tuple, list)):
        return f"[{', '.join(map(value, given))}]"
    return plain(given)


def _bytes(given: Any) -> str:
    if isinstance(given, torch.Tensor) and hasattr(given, "__tensor_flatten__"):
        names, more = given.__tensor_flatten__()
        inner = " ".join(_bytes(getattr(given, name)) for name in names)
        return f"{plain(type(given))} {value(given)} {plain(names)} {plain(more)} {inner}"
    if type(given) not in (torch.Tensor, torch.nn.Parameter) or given.layout is not torch.strided:
        raise Opaque
    if given.is_conj() or given.is_neg():  # another value than its bytes
        raise Opaque
    order = sorted(range(given.dim()), key=given.stride, reverse=True)
    # as it lies in memory, so that a transposed weight is not copied
    flat = given.detach().cpu().permute(order).contiguous().reshape(-1)
    data = flat.view(torch.uint8).numpy() if flat.numel() else b""
    return f"{value(given)} {hashlib.sha256(data).hexdigest()}"
