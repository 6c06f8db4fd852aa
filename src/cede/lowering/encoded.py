"""Encoded weights that no backend computes with: decoded into float constants before planning.

The ops are those that `cede.quant.qmatmul` registers. An op whose weight is a constant is replaced
by a plain linear or embedding on the decoded weight; one that somebody computes with natively
stays whole, and one in a branch of a control-flow op, or whose weight is given by the caller, too.
"""

from __future__ import annotations

import copy
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING, Any

import torch
from torch.export.graph_signature import InputKind, InputSpec, TensorArgument

from cede.constants import constants, value_of
from cede.errors import CedeError, LoweringError
from cede.facts.arguments import named_arguments
from cede.lowering.view import view_of
from cede.types import block_bytes

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from torch.export import ExportedProgram
    from torch.fx import Node

    from cede.host import Host
    from cede.types import Encoding, Partitioner

MATMUL, EMBEDDING = "cede.qmatmul.default", "cede.qembedding.default"


@dataclass(frozen=True, slots=True, kw_only=True)
class Decoded:
    """An encoded weight that became a float32 constant.

    Attributes:
        weight: its name in the program.
        encoding: that it had.
        shape: of the weight.
        before: bytes as encoded.
        after: bytes as float32.
        ops: names of the ATen nodes that read it.
        reason: why no backend reads it as it was.
    """

    weight: str
    encoding: str
    shape: tuple[int, ...]
    before: int
    after: int
    ops: tuple[str, ...]
    reason: str

    def __str__(self) -> str:
        sizes = f"{self.before:,} -> {self.after:,} bytes"
        return (
            f"{self.weight} ({self.encoding}, {list(self.shape)}), read by {', '.join(self.ops)}:"
            f" {sizes}; {self.reason}"
        )


class Natives:
    """Which of the backends that are asked compute with an encoding natively.

    Args:
        host: knows the backends.
        partitioners: those that are asked.
    """

    def __init__(self, host: Host, partitioners: Iterable[Partitioner]) -> None:
        names = dict.fromkeys(partitioner.backend for partitioner in partitioners)
        self._encodings = {name: host.backend(name).encodings for name in names}

    def __call__(self, encoding: str) -> bool:
        """Whether any of them does."""
        return bool(self._names(encoding))

    def _names(self, encoding: str) -> list[str]:
        given = self._encodings.items()
        return [name for name, each in given if any(fnmatchcase(encoding, one) for one in each)]

    def why(self, encoding: str) -> str:
        """Why a weight of that encoding is decoded all the same."""
        if names := self._names(encoding):
            return f"{', '.join(names)} computes with {encoding}, and did not get the op"
        return f"none of {', '.join(self._encodings)} computes with {encoding}"


def is_encoded(op: object) -> bool:
    """Whether an operator computes with an encoded weight."""
    return str(op) in (MATMUL, EMBEDDING)


def encoded_ops(program: ExportedProgram) -> Iterator[Node]:
    """The ops of the top graph that compute with an encoded constant."""
    held = _constants(program)
    for node in program.graph.nodes:
        if node.op == "call_function" and is_encoded(node.target):
            weight = named_arguments(node)["weight"]
            if weight.name in held:
                yield node


def encoding_of(node: Node) -> str:
    """The name of the encoding that an op computes with."""
    return str(named_arguments(node)["encoding"])


def decoded(
    program: ExportedProgram, host: Host, nodes: Iterable[str], why: Callable[[str], str]
) -> tuple[ExportedProgram, tuple[Decoded, ...]]:
    """The program without some ops that compute with encoded weights.

    Args:
        program: from `prepared`; it is left as it is.
        host: brings the encodings.
        nodes: names of those ops, of `encoded_ops`.
        why: why an encoding has to be decoded, for the rows.

    Returns:
        The program, and one row for each weight that was decoded.

    Raises:
        LoweringError: nobody brings an encoding, or its plugin failed to decode.
    """
    names = set(nodes)
    if not names:
        return program, ()
    result = view_of(program)
    readers: dict[tuple[Node, str], list[Node]] = {}
    for node in list(encoded_ops(result)):
        if node.name in names:
            given = named_arguments(node)
            readers.setdefault((given["weight"], given["encoding"]), []).append(node)
    rows = []
    for (weight, encoding), users in readers.items():
        rows.append(_decode(result, host, weight, encoding, users, why))
    _drop_unread(result, {weight for weight, _ in readers})
    result.graph_module.recompile()
    return result, tuple(rows)


def told(rows: Sequence[Decoded]) -> list[str]:
    """The rows as one warning, none if there are none."""
    if not rows:
        return []
    before, after = sum(row.before for row in rows), sum(row.after for row in rows)
    head = f"decoded {len(rows)} encoded weight{'s' * (len(rows) > 1)} into float32 constants"
    return ["\n  ".join([f"{head}, {before:,} -> {after:,} bytes:", *map(str, rows)])]


def _constants(program: ExportedProgram) -> dict[str, str]:
    """Those that nothing writes."""
    written = set(program.graph_signature.buffers_to_mutate.values())
    return {name: target for name, target in constants(program).items() if target not in written}


def _decode(
    program: ExportedProgram,
    host: Host,
    weight: Node,
    name: str,
    users: list[Node],
    why: Callable[[str], str],
) -> Decoded:
    target = _constants(program)[weight.name]
    data = value_of(program, target)
    values = _decoded_values(host, name, data, target)
    placeholder = _add_buffer(program, weight, f"{target}_float32", values)
    for node in users:
        _replace(program, node, placeholder)
    return Decoded(
        weight=target,
        encoding=name,
        shape=tuple(values.shape),
        before=data.nbytes,
        after=values.nbytes,
        ops=tuple(node.name for node in users),
        reason=why(name),
    )


def _decoded_values(host: Host, name: str, data: torch.Tensor, target: str) -> torch.Tensor:
    try:
        host.source("encoding", name)  # says why if there is none
        encoding: Encoding = host.encodings[name]
        size = block_bytes(encoding)
        blocks = data.contiguous().numpy().reshape(-1, size)
        values = torch.from_numpy(encoding.dequantize(blocks))
    except CedeError as error:
        raise LoweringError(f"the weight {target} can't be decoded: {error}") from error
    except Exception as error:
        raise LoweringError(
            f"the weight {target} can't be decoded: the encoding {name!r} failed with"
            f" {type(error).__name__}: {error}"
        ) from error
    return values.reshape(len(data), data.shape[-1] // size * encoding.block_size)


def _add_buffer(program: ExportedProgram, beside: Node, target: str, values: torch.Tensor) -> Node:
    """A new constant of the program, in front of the one that it stands for."""
    with program.graph.inserting_before(beside):
        node: Node = program.graph.placeholder(f"{beside.name}_float32")
    node.meta = {
        key: value for key, value in beside.meta.items() if key not in ("val", "tensor_meta")
    }
    node.meta["val"] = beside.meta["val"].new_empty(values.shape, dtype=torch.float32)
    specs = program.graph_signature.input_specs
    place = next(i for i, spec in enumerate(specs) if getattr(spec.arg, "name", "") == beside.name)
    new = InputSpec(
        kind=InputKind.BUFFER, arg=TensorArgument(name=node.name), target=target, persistent=True
    )
    specs.insert(place, new)
    program._state_dict[target] = values
    return node


def _replace(program: ExportedProgram, node: Node, weight: Node) -> None:
    given = named_arguments(node)
    op: Any
    args: tuple[Any, ...]
    if str(node.target) == MATMUL:
        op, args = torch.ops.aten.linear.default, (given["x"], weight, given.get("bias"))
    else:
        op, args = torch.ops.aten.embedding.default, (weight, given["indices"])
    with program.graph.inserting_before(node):
        plain = program.graph.call_function(op, args)
    plain.meta = copy.copy(node.meta)
    node.replace_all_uses_with(plain)
    program.graph.erase_node(node)
    for spec in program.graph_signature.output_specs:
        if getattr(spec.arg, "name", "") == node.name:
            spec.arg.name = plain.name


def _drop_unread(program: ExportedProgram, weights: set[Node]) -> None:
    """Take out the bytes that nothing reads any more, and other names of the same bytes."""
    targets = _constants(program)
    gone = {value_of(program, targets[node.name]).data_ptr() for node in weights if not node.users}
    signature = program.graph_signature
    for node in list(program.graph.nodes):
        if node.op != "placeholder" or node.users or node.name not in targets:
            continue
        target = targets[node.name]
        if value_of(program, target).data_ptr() in gone:
            program.graph.erase_node(node)
            kept = [s for s in signature.input_specs if getattr(s.arg, "name", "") != node.name]
            signature.input_specs[:] = kept
            program._state_dict.pop(target, None)
            program._constants.pop(target, None)
