"""How a claimed subgraph is compiled and run, and whether that can be done here."""

from __future__ import annotations

from contextlib import nullcontext
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from contextlib import AbstractContextManager

    from cede.types.answers import Claim, Reason, Spec
    from cede.types.costs import Rates
    from cede.types.graph import Op, OpGraph


@dataclass(frozen=True, slots=True, kw_only=True)
class Availability:
    """What can be done here; each field is None, or why not and what to install.

    Attributes:
        claim: deciding which ops it takes.
        lower: compiling a delegate.
        run: executing the program.
    """

    claim: str | None = None
    lower: str | None = None
    run: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """Bounds on delegates; None is no bound.

    Ops are counted without getitems. The bytes of a delegate are those of the constants that its
    ops read, each once, and of all values that its ops make.

    Attributes:
        min_ops: a delegate with fewer ops is dropped (reason "too-small").
        max_ops: a delegate with more ops is split; what can't be split is dropped ("too-big").
        min_bytes: as `min_ops`, in bytes.
        max_bytes: as `max_ops`, in bytes.
        max_delegates: only those with the most ops stay (reason "policy").
    """

    min_ops: int | None = None
    max_ops: int | None = None
    min_bytes: int | None = None
    max_bytes: int | None = None
    max_delegates: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class NoOptions:
    """Options of a backend that has none."""


class LoadedProgram(Protocol):
    """A `.pte` that a backend's own runner has loaded."""

    def run(self, inputs: Sequence[Any], method: str = "forward") -> list[Any]:
        """Call a method with its flat inputs, get its flat outputs. State lives between calls."""


def _available() -> Availability:
    return Availability()


def _no_specs(options: Any) -> Sequence[Spec]:
    return ()


def _nothing() -> None:
    return None


@dataclass(frozen=True, slots=True, kw_only=True)
class Backend:
    """A backend, as its plugin describes it. Callables import what is heavy when called.

    Attributes:
        name: lower-case name, unique among backends.
        delegate_id: the id that stands in the `.pte` ("XnnpackBackend").
        delegate_for: the id for a delegate with these compile specs, where one backend has several
            compilers; None is always `delegate_id`.
        available: what can be done on this machine; quick, imports nothing that may hang.
        register: makes ExecuTorch know the backend's compiler, before lowering. ExecuTorch finds
            it among the classes alive, so one that is made here has to be held, by a module say.
        compile_specs: compile specs for these options, used for claims that bring none.
        rates: what it costs by default, from a data file of the plugin; None if unknown.
        cost: predicted seconds of one op, None if unknown; goes before the rates.
        limits: bounds on its delegates, unless the config says otherwise.
        connected: whether a delegate must be weakly connected.
        options: a dataclass of options; the config's `options.<name>` is checked against it.
        load: how a `.pte` with this delegate is run where ExecuTorch's own runtime can't.
        quantizers: names of the quantizers made for it.
        encodings: names of the weight encodings it computes with natively, "*" for any; the others
            are decoded for it.
        pure: whether what its compiler makes depends on the subgraph, its weights, the compile
            specs and the installed versions alone, and it leaves the weights as they are. Its
            delegates are then kept in the cache, and it gets no copies of weights.
        objects: what its delegate can't compute right, whoever claims it: asked about every claim
            of every partitioner for it, about each op alone where the claim is divisible. None, or
            why the backend must not have it: those ops are then refused.
        holds: whether its delegate takes a constant in, by the constant's id, that its ops read.
            None takes all in; one that is not taken in is handed over at each call.
        shortcuts: a context in which its compiler does less work for the same outcome.
    """

    name: str
    delegate_id: str
    available: Callable[[], Availability] = _available
    register: Callable[[], None] = _nothing
    compile_specs: Callable[[Any], Sequence[Spec]] = _no_specs
    delegate_for: Callable[[Sequence[Spec]], str] | None = None
    rates: Callable[[], Rates] | None = None
    cost: Callable[[Op], float | None] | None = None
    limits: Limits = field(default_factory=Limits)
    connected: bool = False
    options: type = NoOptions
    load: Callable[[bytes], LoadedProgram] | None = None
    quantizers: tuple[str, ...] = ()
    encodings: tuple[str, ...] = ()
    pure: bool = False
    objects: Callable[[Claim, OpGraph], Reason | None] | None = None
    holds: Callable[[str, OpGraph], bool] | None = None
    shortcuts: Callable[[], AbstractContextManager[None]] = nullcontext
