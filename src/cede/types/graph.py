"""Facts about one exported program, frozen: what a partitioner and `settle` decide on."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from enum import Enum
from typing import TYPE_CHECKING, TypeAlias

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

Dim: TypeAlias = "int | str"
"""A size: a number, or a symbolic expression such as "s0" or "2*s0"."""

_UNBACKED = re.compile(r"\bu\d+")


@dataclass(frozen=True, slots=True, kw_only=True)
class TensorFact:
    """One tensor value.

    Attributes:
        shape: its sizes; a symbolic size is a string.
        dtype: as torch names it, without "torch." ("float32", "int8"); a symbolic number has
            the dtype "SymInt", "SymFloat" or "SymBool" and an empty shape.
        nbytes: bytes of the dense data; for symbolic sizes at their upper bound (or the example
            size where a size has no bound).
        dim_order: dimensions from the outermost to the innermost in memory; (0, 1, 2, ...) is
            contiguous, (0, 2, 3, 1) is channels last.
    """

    shape: tuple[Dim, ...]
    dtype: str
    nbytes: int = 0
    dim_order: tuple[int, ...] = ()

    @property
    def rank(self) -> int:
        """The number of dimensions."""
        return len(self.shape)

    @property
    def dynamic(self) -> bool:
        """Whether any size is symbolic."""
        return any(isinstance(size, str) for size in self.shape)

    @property
    def unbacked(self) -> bool:
        """Whether a size depends on data, so that no delegate's border can have it."""
        return any(_UNBACKED.search(size) for size in self.shape if isinstance(size, str))

    def __str__(self) -> str:
        return f"{self.dtype}[{','.join(map(str, self.shape))}]"


@dataclass(frozen=True, slots=True)
class Ref:
    """An argument that is the value of an op or of a graph input, by id."""

    id: str


Argument: TypeAlias = "Ref | bool | int | float | str | tuple[Argument, ...] | None"
"""What an op is called with. Dtypes, layouts and symbolic numbers are strings."""


class InputKind(str, Enum):
    """What a graph input holds."""

    USER = "user"
    PARAMETER = "parameter"
    BUFFER = "buffer"
    CONSTANT = "constant"


@dataclass(frozen=True, slots=True, kw_only=True)
class GraphInput:
    """A placeholder of the program, or of a control-flow branch.

    Attributes:
        id: node name, prefixed by its scope and "/" inside a branch.
        kind: user input, parameter, buffer or lifted constant.
        target: fully qualified name of the parameter, buffer or constant.
        tensor: None for an input that is no tensor.
        mutated: whether the program writes it back.
        scope: "" at the top, else the branch it belongs to.
    """

    id: str
    kind: InputKind
    tensor: TensorFact | None = None
    target: str | None = None
    mutated: bool = False
    scope: str = ""

    @property
    def constant(self) -> bool:
        """Whether its value is known ahead of time."""
        return self.kind is not InputKind.USER and not self.mutated


@dataclass(frozen=True, slots=True, kw_only=True)
class Op:
    """One operation of the edge program.

    Attributes:
        id: node name, prefixed by its scope and "/" inside a branch.
        target: operator with overload ("aten.addmm.default", "getitem", "cond").
        args: every argument of the schema by name, defaults included, in schema order.
        inputs: ids of the values it reads, in argument order, each once.
        outputs: its results; one entry for a single tensor.
        module: path of the module that made it ("layers.0.attn"), "" at the root or unknown.
        source: "file.py:12" of the innermost line outside torch, "" if unknown.
        layer: names of the `cede.layer` contexts around it, joined by dots.
        scope: "" at the top, else the branch it belongs to ("cond/true_graph_0").
        branches: scopes of the subgraphs that a control-flow op runs.
        flops: floating-point operations (a multiply-add counts two), 0 for pure data movement.
        origin: operator of the exported program that it was decomposed from
            ("aten.linear.default"), "" where that is the same or unknown.
    """

    id: str
    target: str
    args: tuple[tuple[str, Argument], ...] = ()
    inputs: tuple[str, ...] = ()
    outputs: tuple[TensorFact, ...] = ()
    module: str = ""
    source: str = ""
    layer: str = ""
    scope: str = ""
    branches: tuple[str, ...] = ()
    flops: int = 0
    origin: str = ""

    def arg(self, name: str) -> Argument:
        """The argument of that name. Raises KeyError if the schema has none."""
        for key, value in self.args:
            if key == name:
                return value
        raise KeyError(name)

    @property
    def kind(self) -> str:
        """The operator without overload: "aten.addmm" for "aten.addmm.default"."""
        return _kind(self.target)

    @property
    def operators(self) -> tuple[str, ...]:
        """The operator and the one it was decomposed from, each without and with overload."""
        names = (self.target, self.origin) if self.origin else (self.target,)
        return tuple(dict.fromkeys(name for full in names for name in (_kind(full), full)))

    @property
    def bookkeeping(self) -> bool:
        """Whether it computes no tensor: a getitem, arithmetic on sizes, an assertion."""
        if self.branches:
            return False
        return self.target == "getitem" or all(f.dtype.startswith("Sym") for f in self.outputs)

    @property
    def where(self) -> str:
        """For messages: id, operator, and the module, layer and source line where known."""
        parts = [f"{self.id} ({self.target})"]
        if self.module:
            parts.append(f"in module {self.module}")
        if self.layer:
            parts.append(f"in layer {self.layer}")
        if self.source:
            parts.append(f"at {self.source}")
        return " ".join(parts)


def _kind(target: str) -> str:
    head, dot, _ = target.rpartition(".")
    return head if dot and "." in head else target


@dataclass(frozen=True, slots=True, kw_only=True)
class SymbolBounds:
    """A symbolic size with its inclusive bounds; None is unbounded."""

    name: str
    low: int | None = None
    high: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class OpGraph:
    """A whole program: inputs, ops in execution order, outputs.

    Branch ops of a control-flow op stand directly before it and belong to its scopes. All look-ups
    are O(1) after construction in O(V+E).

    Attributes:
        inputs: placeholders of every scope.
        ops: every op, producers first.
        outputs: ids returned to the caller (top scope only).
        mutations: (target name of a buffer or user input, id of the value written to it).
        returns: ids that each branch scope returns.
        symbols: symbolic sizes with their bounds.
        fingerprint: sha256 over structure, shapes, dtypes and names, not over weights' values.
    """

    inputs: tuple[GraphInput, ...] = ()
    ops: tuple[Op, ...] = ()
    outputs: tuple[str, ...] = ()
    mutations: tuple[tuple[str, str], ...] = ()
    returns: tuple[tuple[str, tuple[str, ...]], ...] = ()
    symbols: tuple[SymbolBounds, ...] = ()
    fingerprint: str = ""
    _index: dict[str, int] = field(init=False, repr=False, compare=False)
    _inputs: dict[str, GraphInput] = field(init=False, repr=False, compare=False)
    _users: dict[str, tuple[str, ...]] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        users: dict[str, list[str]] = {}
        for op in self.ops:
            for used in op.inputs:
                users.setdefault(used, []).append(op.id)
        object.__setattr__(self, "_index", {op.id: i for i, op in enumerate(self.ops)})
        object.__setattr__(self, "_inputs", {i.id: i for i in self.inputs})
        object.__setattr__(self, "_users", {key: tuple(ids) for key, ids in users.items()})

    def __contains__(self, op: str) -> bool:
        return op in self._index

    def op(self, id: str) -> Op:
        """The op of that id. Raises KeyError."""
        return self.ops[self._index[id]]

    def position(self, id: str) -> int:
        """Where the op stands in `ops`. Raises KeyError."""
        return self._index[id]

    def input(self, id: str) -> GraphInput | None:
        """The graph input of that id, or None if the id is an op's."""
        return self._inputs.get(id)

    def users(self, id: str) -> tuple[str, ...]:
        """Ids of the ops that read that op's or input's value."""
        return self._users.get(id, ())

    def fact(self, id: str) -> TensorFact | None:
        """The first tensor of an op or input, None if it has none."""
        if (given := self._inputs.get(id)) is not None:
            return given.tensor
        outputs = self.op(id).outputs
        return outputs[0] if outputs else None

    def scope(self, name: str) -> Iterator[Op]:
        """The ops of one scope, in order."""
        return (op for op in self.ops if op.scope == name)

    def is_convex(self, ops: Iterable[str]) -> bool:
        """Whether no path leaves the set and comes back to it."""
        return not self.path_outside(ops)

    def path_outside(self, ops: Iterable[str]) -> tuple[str, ...]:
        """A path that leaves the set and comes back, as ids, or () for a convex set.

        One pass over the ops between the first and the last of the set.
        """
        members = set(ops)
        if len(members) < 2:
            return ()
        places = [self._index[op] for op in members]
        came_from: dict[str, str] = {}
        for i in range(min(places), max(places) + 1):
            op = self.ops[i]
            for used in op.inputs:
                if op.id in members:
                    if used in came_from:
                        return (*_walk_back(came_from, used, members), op.id)
                elif used in members or used in came_from:
                    came_from[op.id] = used
                    break
        return ()


def _walk_back(came_from: dict[str, str], last: str, members: set[str]) -> tuple[str, ...]:
    path = [last]
    while path[-1] not in members:
        path.append(came_from[path[-1]])
    return tuple(reversed(path))
