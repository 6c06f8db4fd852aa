"""What a partitioner is given and what it answers: claims and refusals, each with a reason."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING, Any, Protocol, runtime_checkable

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from cede.types.graph import OpGraph

Spec = tuple[str, bytes]
"""A compile spec: key and value, as ExecuTorch hands them to a backend."""

Mark = tuple[str, str, Any]
"""An op's id, a key and a plain value: what the backend's compiler reads in `node.meta`."""


class Code(str, Enum):
    """Why an op was not taken, in one word that tools can count."""

    UNKNOWN_OP = "unknown-op"
    DTYPE = "dtype"
    SHAPE = "shape"
    LAYOUT = "layout"
    DYNAMIC_SHAPE = "dynamic-shape"
    ARGUMENT = "argument"
    QUANT_SCHEME = "quant-scheme"
    NOT_CONSTANT = "not-constant"
    CONTROL_FLOW = "control-flow"
    NO_KERNEL = "no-kernel"
    DECLINED = "declined"
    OUTBID = "outbid"
    TOO_SMALL = "too-small"
    TOO_BIG = "too-big"
    NOT_CONVEX = "not-convex"
    CYCLE = "cycle"
    POLICY = "policy"
    UNAVAILABLE = "unavailable"
    PLUGIN_FAILED = "plugin-failed"
    NO_ANSWER = "no-answer"
    COMPILE_FAILED = "compile-failed"


@dataclass(frozen=True, slots=True, kw_only=True)
class Reason:
    """A code for tools and a sentence for people."""

    code: Code
    detail: str

    def __str__(self) -> str:
        return f"{self.code.value}: {self.detail}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Claim:
    """A set of ops that a partitioner would have its backend compute.

    Attributes:
        partitioner: name of the partitioner.
        backend: name of the backend.
        ops: ids of the ops.
        note: what the ops are together ("conv + relu"), for the table.
        cost: predicted seconds, None if unknown.
        divisible: whether `settle` may give its ops to different delegates or leave some out;
            otherwise they go together or not at all.
        specs: compile specs of the delegate; claims with different specs never share one.
        marks: what the backend's compiler must find in the ops' `meta`; values of JSON types.
    """

    partitioner: str
    backend: str
    ops: frozenset[str]
    note: str = ""
    cost: float | None = None
    divisible: bool = False
    specs: tuple[Spec, ...] = ()
    marks: tuple[Mark, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Refusal:
    """One op that a partitioner leaves, and why."""

    partitioner: str
    op: str
    reason: Reason


@dataclass(frozen=True, slots=True, kw_only=True)
class Keep:
    """ATen ops that a partitioner wants whole instead of decomposed.

    Attributes:
        ops: `torch._ops.OpOverload`s; they must neither alias nor mutate.
        accepts: asked for each such `torch.fx.Node` of the ATen program: False decomposes this
            one all the same. None keeps them all.
        certain: whether what is kept will be claimed, unless a rival, a limit or a policy takes it
            away. Where it isn't, an existing export script pays for a planning run beforehand.
    """

    ops: tuple[Any, ...] = ()
    accepts: Callable[[Any], bool] | None = None
    certain: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Program:
    """What a partitioner sees.

    Attributes:
        graph: the facts. Empty while `keeps` is asked: the program is not decomposed yet.
        exported: the `torch.export.ExportedProgram` the facts were read from; read-only.
        options: the backend's options from the config, an instance of `Backend.options`.
    """

    graph: OpGraph
    exported: Any
    options: Any


@runtime_checkable
class Partitioner(Protocol):
    """Answers which ops may go to a backend. Holds no state between two calls.

    Attributes:
        name: lower-case name, unique among partitioners; what configs and tables say.
        backend: name of the backend it claims for.
    """

    @property
    def name(self) -> str:
        """Lower-case name, unique among partitioners."""

    @property
    def backend(self) -> str:
        """Name of the backend that it claims for."""

    def keeps(self, program: Program) -> Keep:
        """Ops that must not be decomposed for this partitioner's claims."""

    def claim(self, program: Program) -> Iterable[Claim | Refusal]:
        """One claim or refusal for every op of `program.graph`, in any order.

        An op without an answer becomes a refusal with the code "no-answer"; an exception makes
        every op that is not answered yet a refusal with the code "plugin-failed".
        """
