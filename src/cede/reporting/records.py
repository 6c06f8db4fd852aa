"""The records of a report, frozen."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from cede.costs import Prediction, Timing
    from cede.planning import Plan
    from cede.reporting.advice import Advice
    from cede.reporting.borders import Border
    from cede.reporting.comparison import Rank
    from cede.reporting.content import Coverage, Kernel, Quantized, SharedConstant
    from cede.reporting.memory import MemoryUse, StateTotal
    from cede.types import OpGraph, Reason

SCHEMA = 1


class Outcome(str, Enum):
    """What became of one op for one partitioner."""

    TOOK = "took"
    REFUSED = "refused"
    LOST = "lost"


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """What one partitioner said to one op, and what came of it; a reason unless it took it."""

    partitioner: str
    outcome: Outcome
    reason: Reason | None = None

    def __str__(self) -> str:
        return f"{self.outcome.value} ({self.reason})" if self.reason else self.outcome.value


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """One op.

    Attributes:
        op: its id.
        target: operator with overload.
        module: path of the module that made it.
        layer: names of the `cede.layer` contexts around it.
        source: "file.py:12".
        scope: "" at the top, else the control-flow branch.
        backend: that computes it, "" when left.
        delegate: id of its delegation, "" when left.
        partitioner: that claimed it, "" when left.
        outputs: dtype and shape of each result.
        flops: floating-point operations.
        bytes: of its outputs and of the constants it reads, each once.
        bookkeeping: whether it computes nothing: a getitem, a size, an assertion.
        reason: why it was left, partitioner by partitioner; "" when taken.
        answers: one for each partitioner that was asked, in priority order.
        inputs: ids of the values that it reads, in argument order.
    """

    op: str
    target: str
    module: str
    layer: str
    source: str
    scope: str
    backend: str
    delegate: str
    partitioner: str
    outputs: str
    flops: int
    bytes: int
    bookkeeping: bool
    reason: str
    answers: tuple[Answer, ...]
    inputs: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Totals:
    """Sums over the program, branches included.

    Attributes:
        ops: that compute something; `delegated` of them are in a delegate.
        bookkeeping: ops that compute nothing, in no other number here.
        delegates: number of delegates.
        flops: floating-point operations of all ops.
        weight_bytes: of all constants that an op reads; `delegated_weight_bytes` of those that a
            delegate reads.
    """

    ops: int
    delegated: int
    bookkeeping: int
    delegates: int
    flops: int
    delegated_flops: int
    weight_bytes: int
    delegated_weight_bytes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class TypeTotal:
    """Nodes of one op type in the lowered program, as ExecuTorch's `get_delegation_info` counts.

    That is by node name without its number, over the top graph and the delegates, not over
    control-flow branches. A value that leaves a delegate counts as one "getitem" outside.
    """

    op_type: str
    delegated: int
    non_delegated: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ModuleTotal:
    """Sums over a module and those inside it; path "" is the whole program."""

    module: str
    ops: int
    delegated: int
    flops: int
    delegated_flops: int


@dataclass(frozen=True, slots=True, kw_only=True)
class DelegateTotal:
    """One delegate.

    Attributes:
        id: of its delegation.
        backend: that computes it.
        partitioners: whose claims are in it.
        ops: that compute something.
        flops: floating-point operations.
        bytes_in: of the values it reads that are no constants.
        bytes_out: of the values that leave it.
        ends: why it is no larger: the first op after it that is left or another delegate's, with
            the reason.
        predicted_seconds: of one call, launch and borders included; None without costs.
        measured_seconds: of one call; None where nothing was measured.
    """

    id: str
    backend: str
    partitioners: tuple[str, ...]
    ops: int
    flops: int
    bytes_in: int
    bytes_out: int
    ends: str
    predicted_seconds: float | None = None
    measured_seconds: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    """Who took each op, who left it and why, with totals; made by `make_report`.

    Attributes:
        rows: one an op, branch ops included, in execution order.
        totals: over the program.
        by_type: sorted by name.
        by_module: depth first, in order of first use.
        by_delegate: in execution order.
        plan: that it tells about.
        graph: the facts it was made from.
        prediction: seconds of one call, None where the plan has no costs.
        timing: measured seconds of one call, None where the program was not run.
        states: buffers and inputs that a call writes.
        memory: what the program plans for the values of a call, None where it was not emitted.
        borders: between delegates, or with what is left, where a side is quantized.
        kernels: operators that are left to the runtime's own kernels, most ops first.
        shared_constants: constants with several holders, each of which may store a copy; of an
            emitted program also those of equal content, with the copies that it has.
        quantization: what became of each module or op, None where that is not known.
        ranking: operators whose support would merge delegates, () where nobody asked.
    """

    rows: tuple[Row, ...]
    totals: Totals
    by_type: tuple[TypeTotal, ...]
    by_module: tuple[ModuleTotal, ...]
    by_delegate: tuple[DelegateTotal, ...]
    plan: Plan = field(repr=False)
    graph: OpGraph = field(repr=False)
    prediction: Prediction | None = None
    timing: Timing | None = None
    states: tuple[StateTotal, ...] = ()
    memory: MemoryUse | None = None
    borders: tuple[Border, ...] = ()
    kernels: tuple[Kernel, ...] = ()
    shared_constants: tuple[SharedConstant, ...] = ()
    ranking: tuple[Rank, ...] = ()
    quantization: Quantized | None = None

    @property
    def left(self) -> tuple[Row, ...]:
        """Rows of the ops that compute something outside every delegate."""
        return tuple(row for row in self.rows if not row.delegate and not row.bookkeeping)

    @property
    def coverage(self) -> tuple[Coverage, ...]:
        """By ops, FLOPs, weight bytes, and time where that is known."""
        from cede.reporting.content import coverage

        return coverage(self.totals, self.prediction, self.timing)

    @property
    def advice(self) -> tuple[Advice, ...]:
        """The most useful things to do, three at most."""
        from cede.reporting.advice import advice

        return advice(self)

    @property
    def verdict(self) -> str:
        """One line: shares of ops, FLOPs and weight bytes in delegates."""
        from cede.reporting.render import verdict

        return verdict(self.totals)

    def text(self, width: int | None = None, *, rich: bool = False) -> str:
        """Tables for a terminal of that width, None for reasons of 60; rich: bold and colour."""
        from cede.reporting.render import text

        return text(self, width, rich)

    def summary(self, width: int | None = None, *, rich: bool = False) -> str:
        """As `text`, without a line for each op: the verdict, delegates, and reasons counted."""
        from cede.reporting.render import summary

        return summary(self, width, rich)

    def summary_markdown(self) -> str:
        """The tables of `summary` in Markdown."""
        from cede.reporting.render import markdown_summary

        return markdown_summary(self)

    def markdown(self) -> str:
        """The tables of `text` in Markdown."""
        from cede.reporting.render import markdown

        return markdown(self)

    def csv(self) -> str:
        """The op rows, with a header; one column "answer:<name>" for each partitioner."""
        from cede.reporting.data import to_csv

        return to_csv(self)

    def delegates_csv(self) -> str:
        """One row a delegate, with a header."""
        from cede.reporting.data import delegates_to_csv

        return delegates_to_csv(self)

    def json(self) -> str:
        """Everything; stable. Its schema is `cede.reporting.json_schema()`."""
        from cede.reporting.data import to_json

        return to_json(self)

    def html(self, title: str = "") -> str:
        """One page that opens offline and asks nobody for anything: graph, tables, what-ifs."""
        from cede.reporting.page import page

        return page(self, title)

    def dot(self, title: str = "") -> str:
        """The graph for Graphviz: a cluster for each delegate, dashed what was left."""
        from cede.reporting.drawn import to_dot

        return to_dot(self, title)

    def model_explorer(self, title: str = "") -> str:
        """The graph as JSON that Model Explorer opens."""
        from cede.reporting.drawn import to_model_explorer

        return to_model_explorer(self, title)

    def model_explorer_data(self) -> str:
        """The delegates as node data, JSON to be put over `model_explorer()`."""
        from cede.reporting.drawn import to_model_explorer_data

        return to_model_explorer_data(self)

    def _repr_html_(self) -> str:
        """For a notebook: static tables, without a line for each op."""
        from cede.reporting.notebook import fragment

        return fragment(self)
