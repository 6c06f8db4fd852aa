"""What a reference delegate holds: a `torch.export` archive of plain ATen ops behind a header.

Layout: the magic `CEDEREF\\0`, then little-endian u32 version and u32 header size, a JSON header
(`operators`: those that the program calls, as "aten::add.Tensor"; `layouts`: the dimension order
of the weights that are not contiguous; `torch`: the version that wrote it), and the archive that
`torch.export.save` wrote.
"""

from __future__ import annotations

import copy
import io
import json
import struct
import warnings
from typing import TYPE_CHECKING, Any

import torch
from executorch.exir.dialects.edge._ops import EdgeOpOverload
from torch.export import ExportedProgram
from torch.fx.experimental.symbolic_shapes import free_symbols

from cede.backends.reference.constants import lift
from cede.errors import LoweringError
from cede.lacking import archived, lack
from cede.running.kernels import resolve
from cede.running.libraries import register
from cede.running.signature import laid_out, strides_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

MAGIC = b"CEDEREF\0"
VERSION = 1
_HEAD = struct.Struct("<8sII")


def dump(program: ExportedProgram) -> bytes:
    """Serialize an edge program; it is not changed.

    Raises:
        LoweringError: it calls something that `torch.export` can't save, named.
    """
    plain = _plain(program)
    header = json.dumps(
        {
            "operators": sorted(_operators(plain)),
            "layouts": _layouts({**program.constants, **program.state_dict}),
            "torch": torch.__version__,
        }
    )
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", FutureWarning)
            saved = archived(lambda file: torch.export.save(plain, file))
    except Exception as error:
        if lacking := lack(error):
            raise LoweringError(f"reference: {lacking}") from error
        raise LoweringError(f"reference: torch.export can't save this delegate: {error}") from error
    text = header.encode()
    return _HEAD.pack(MAGIC, VERSION, len(text)) + text + saved


def restore(data: bytes) -> ExportedProgram:
    """Read back what `dump` wrote.

    Raises:
        LoweringError: no such payload, one of another version, damage, or an operator that
            nothing has registered in this process, named.
    """
    if len(data) < _HEAD.size or not data.startswith(MAGIC):
        raise LoweringError("reference: the delegate's data is not a reference payload")
    _, version, size = _HEAD.unpack_from(data)
    if version != VERSION:
        raise LoweringError(
            f"reference: the delegate's data has version {version}, this cede reads {VERSION};"
            " lower the program again"
        )
    try:
        header = json.loads(data[_HEAD.size : _HEAD.size + size])
        operators, layouts = header["operators"], header["layouts"]
    except (ValueError, KeyError, TypeError) as error:
        raise LoweringError("reference: the delegate's header is damaged") from error
    register(operators)
    for name in operators:
        resolve(name, "reference")
    try:
        program = torch.export.load(io.BytesIO(data[_HEAD.size + size :]))
    except Exception as error:
        raise LoweringError(f"reference: the delegate's data is damaged: {error}") from error
    for tensors in (program.state_dict, program.constants):
        for name in tensors.keys() & layouts.keys():
            tensors[name] = laid_out(tensors[name].detach(), layouts[name])
    return program


def _plain(program: ExportedProgram) -> ExportedProgram:
    module = copy.deepcopy(program.graph_module)
    for graph_module in _graph_modules(module):
        for node in graph_module.graph.nodes:
            if isinstance(node.target, EdgeOpOverload):
                node.target = node.target._op
            if node.op == "call_function":
                _check(node)
            # Paths and names of the exporting machine are no part of the program.
            node.meta = {key: value for key, value in node.meta.items() if key == "val"}
        graph_module.recompile()
    signature, lifted = lift(module, program.graph_signature)
    return ExportedProgram(
        root=module,
        graph=module.graph,
        graph_signature=signature,
        state_dict=_contiguous(program.state_dict),
        range_constraints=_ranges(program),
        module_call_graph=program.module_call_graph,
        constants=_contiguous({**program.constants, **lifted}),
    )


def _ranges(program: ExportedProgram) -> dict[Any, Any]:
    """Bounds of the symbols that stand in this subprogram, not of the whole program's."""
    found: set[Any] = set()
    for node in program.graph.nodes:
        found |= free_symbols(node.meta.get("val"))
    return {
        symbol: bounds for symbol, bounds in program.range_constraints.items() if symbol in found
    }


def _contiguous(tensors: Mapping[str, Any]) -> dict[str, Any]:
    """The archive writes whole storages: views and other layouts are made contiguous first."""
    copies: dict[int, Any] = {}  # tied weights stay one
    for tensor in tensors.values():
        whole = not isinstance(tensor, torch.Tensor) or (
            tensor.is_contiguous() and tensor.nbytes == tensor.untyped_storage().nbytes()
        )
        if id(tensor) not in copies:
            copies[id(tensor)] = tensor if whole else _copied(tensor)
    return {name: copies[id(tensor)] for name, tensor in tensors.items()}


def _copied(tensor: torch.Tensor) -> torch.Tensor:
    copy = tensor.detach().clone(memory_format=torch.contiguous_format)
    return torch.nn.Parameter(copy, False) if isinstance(tensor, torch.nn.Parameter) else copy


def _layouts(tensors: Mapping[str, Any]) -> dict[str, list[int]]:
    found = {}
    for name, tensor in tensors.items():
        if isinstance(tensor, torch.Tensor) and not tensor.is_contiguous():
            order = list(tensor.dim_order())
            if tensor.stride() == strides_of(tensor.shape, order):
                found[name] = order
    return found


def _graph_modules(module: torch.nn.Module) -> Iterator[torch.fx.GraphModule]:
    return (given for given in module.modules() if isinstance(given, torch.fx.GraphModule))


def _check(node: Any) -> None:
    target = node.target
    known = isinstance(target, torch._ops.OpOverload | torch._ops.HigherOrderOperator)
    # Arithmetic on symbolic sizes: operator.mul, math.ceil, torch.sym_max.
    plain = getattr(target, "__module__", "") in ("_operator", "math", "torch", "builtins")
    nested = getattr(target, "__name__", "") == "executorch_call_delegate"
    if nested or not (known or plain):
        raise LoweringError(
            f"reference: {node.name} calls {getattr(target, '__name__', target)}, which"
            " torch.export can't save; leave it out with an `exclude` or another backend"
        )


def _operators(program: ExportedProgram) -> set[str]:
    found = set()
    for graph_module in _graph_modules(program.graph_module):
        for node in graph_module.graph.nodes:
            # An operator that writes an argument is one itself, of a call that wraps it.
            for op in (node.target, *node.args):
                if isinstance(op, torch._ops.OpOverload):
                    overload, name = op._overloadname, op._schema.name
                    found.add(name if overload == "default" else f"{name}.{overload}")
    return found
