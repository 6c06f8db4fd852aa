"""What a delegate is made from, as a key: equal keys, equal delegates."""

from __future__ import annotations

import enum
import hashlib
import inspect
import os
import platform
import sys
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from executorch.exir.backend.backend_details import BackendDetails
from torch.fx import GraphModule, Node

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from executorch.exir.backend.compile_spec_schema import CompileSpec
    from torch.export import ExportedProgram

_UNREAD = frozenset(
    (
        "stack_trace", "from_node", "original_aten", "torch_fn", "tensor_meta", "seq_nr", "spec",
        "delegation_tag", "eager_input_vals", "unbacked_bindings", "partitioner_tag",
        "autograd_backward", "desc",
    )
)  # fmt: skip
"""Facts of a node that tell where it came from."""


class Opaque(Exception):
    """Something that can't be compared with what will be there next time."""


def key_of(backend: str, program: ExportedProgram, specs: Sequence[CompileSpec]) -> str | None:
    """The key of a delegate, None where it can't be told.

    SHA-256 over the backend's id and code, all installed versions, the compile specs, the
    signature, the graph with the facts of each node, and the bytes of each constant.
    """
    digest = hashlib.sha256()
    try:
        for part in _parts(backend, program, specs):
            digest.update(hashlib.sha256(part.encode()).digest())
    except Opaque:
        return None
    return digest.hexdigest()


def _parts(backend: str, program: ExportedProgram, specs: Sequence[CompileSpec]) -> Iterator[str]:
    yield f"{backend} {_code(backend)} {_installed()}"
    yield repr([(spec.key, bytes(spec.value)) for spec in specs])
    yield f"{program.graph_signature.input_specs} {program.graph_signature.output_specs}"
    yield repr(sorted((str(k), str(v)) for k, v in program.range_constraints.items()))
    for node in program.graph.nodes:
        yield f"{node.op} {node.name} {_target(node)} {_plain((node.args, node.kwargs))}"
        yield _value(node.meta.get("val"))
        for key in sorted(node.meta.keys() - _UNREAD - {"val"}):
            yield f"{key} {_plain(node.meta[key])}"
    for name, held in sorted({**program.state_dict, **program.constants}.items()):
        yield f"{name} {_bytes(held)}"


@cache
def _installed() -> str:
    """Every installed distribution with its version, by the names of their folders; the machine."""
    found = set()
    for folder in dict.fromkeys(sys.path):
        try:
            names = os.listdir(folder or ".")
        except OSError:
            continue
        found |= {name for name in names if name.endswith((".dist-info", ".egg-info"))}
    return " ".join((*sorted(found), sys.version, platform.machine()))


@cache
def _code(backend: str) -> str:
    """Hashes of cede's own sources and of the file of a compiler."""
    kind = next(each for each in BackendDetails.__subclasses__() if each.__name__ == backend)
    own = Path(__file__).parents[1]
    files = [*own.glob("lowering/**/*.py"), *own.glob("backends/*/*.py")]
    source = inspect.getsourcefile(kind)
    digest = hashlib.sha256()
    for file in (*sorted(files), *([Path(source)] if source else [])):
        digest.update(file.read_bytes())
    return digest.hexdigest()


def _target(node: Node) -> str:
    target = node.target
    if isinstance(target, str):
        return target
    return f"{getattr(target, '__module__', '')}.{getattr(target, '__name__', target)}"


def _plain(value: Any) -> str:
    if isinstance(value, dict):
        return f"{{{', '.join(f'{_plain(k)}: {_plain(v)}' for k, v in value.items())}}}"
    if isinstance(value, (tuple, list)):
        return f"{type(value).__name__}({', '.join(map(_plain, value))})"
    if isinstance(value, Node):
        return f"%{value.name}"
    if isinstance(value, slice):
        return f"slice{_plain((value.start, value.stop, value.step))}"
    if callable(value) and hasattr(value, "__qualname__"):  # by what a module was called
        return f"{value.__module__}.{value.__qualname__}"
    plain = (str, int, float, bool, bytes, type(None), enum.Enum, torch.dtype, torch.device)
    if isinstance(value, (*plain, torch.memory_format, torch.layout, torch.SymInt)):
        return repr(value)
    if isinstance(value, (torch._ops.OpOverload, torch._ops.OpOverloadPacket)):
        return str(value)
    raise Opaque


def _value(value: Any) -> str:
    if isinstance(value, torch.Tensor):
        order = value.stride() if value.layout is torch.strided else ""
        return f"{value.dtype} {tuple(value.shape)} {order} {value.layout} {value.device}"
    if isinstance(value, (tuple, list)):
        return f"[{', '.join(map(_value, value))}]"
    return _plain(value)


def _bytes(value: Any) -> str:
    if type(value) not in (torch.Tensor, torch.nn.Parameter) or value.layout is not torch.strided:
        raise Opaque
    flat = value.detach().cpu().contiguous().reshape(-1)
    data = flat.view(torch.uint8).numpy() if flat.numel() else b""
    return f"{_value(value)} {hashlib.sha256(data).hexdigest()}"


def has_modules(program: ExportedProgram) -> bool:
    """Whether a graph holds other graphs, whose content the key does not tell."""
    return any(isinstance(each, GraphModule) for each in program.graph_module.children())
