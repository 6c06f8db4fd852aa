"""Coverage, kernels that a program needs, constants with several holders, quantization."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import Sequence

    from cede.costs import Prediction, Timing
    from cede.planning import Plan
    from cede.reporting.records import Row, Totals
    from cede.reporting.tables import Table
    from cede.types import OpGraph


class Quantized(Protocol):
    """What became of each module, or op, where the model was quantized."""

    @property
    def verdict(self) -> str:
        """One line."""

    @property
    def tables(self) -> list[Table]:
        """One row a module or op, and what else there is."""

    def json(self) -> str:
        """An object with a schema of its own."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Coverage:
    """How much of something is in delegates.

    Attributes:
        of: "ops", "flops", "weight_bytes", "predicted_seconds" or "measured_seconds".
        delegated: of it in delegates; predicted seconds include their launches and borders.
        whole: all of it. Of measured seconds the sum of the parts that were traced.
    """

    of: str
    delegated: float
    whole: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Kernel:
    """One operator that is left to the runtime's own kernels.

    Attributes:
        operator: with overload, as the op table has it.
        ops: how many ops outside of delegates call it.
        flops: of these, floating-point operations.
        dtypes: of their results, sorted.
    """

    operator: str
    ops: int
    flops: int
    dtypes: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class SharedConstant:
    """One constant that several delegates read, or delegates and ops outside of them.

    Each holder may store a copy. Some backends write named data, which the file holds once. In the
    report of a lowered program constants of equal content are one, and copies are counted.

    Attributes:
        name: qualified name of the parameter, buffer or constant.
        tensor: dtype and shape.
        bytes: of one copy.
        holders: ids of the delegates, and "the program" for ops outside of them.
        ops: ids of the ops that read it.
        same: other names whose content is equal; known of a lowered program alone.
        copies: how often the lowered program stores it; None where that is not known, since it was
            not lowered or a backend keeps a form of its own.
    """

    name: str
    tensor: str
    bytes: int
    holders: tuple[str, ...]
    ops: tuple[str, ...] = ()
    same: tuple[str, ...] = ()
    copies: int | None = None

    @property
    def extra_bytes(self) -> int:
        """Of all copies but one; if they are not known, as if each holder or name had its own."""
        most = max(len(self.holders), 1 + len(self.same))
        return self.bytes * ((most if self.copies is None else self.copies) - 1)


def coverage(
    totals: Totals, prediction: Prediction | None, timing: Timing | None
) -> tuple[Coverage, ...]:
    """By ops, FLOPs and weight bytes; by time where there are predictions or measurements."""
    found = [
        Coverage(of="ops", delegated=totals.delegated, whole=totals.ops),
        Coverage(of="flops", delegated=totals.delegated_flops, whole=totals.flops),
        Coverage(
            of="weight_bytes", delegated=totals.delegated_weight_bytes, whole=totals.weight_bytes
        ),
    ]
    if prediction is not None:
        inside = sum(given.seconds for given in prediction.delegates)
        found.append(
            Coverage(of="predicted_seconds", delegated=inside, whole=inside + prediction.fallback)
        )
    if timing is not None and (timing.delegates or timing.ops):
        inside = sum(timing.delegates.values())
        whole = inside + sum(timing.ops.values())
        found.append(Coverage(of="measured_seconds", delegated=inside, whole=whole))
    return tuple(found)


def kernels(rows: Sequence[Row], graph: OpGraph) -> tuple[Kernel, ...]:
    """What the runtime must bring; most ops first. A getitem and control flow need none."""
    by_operator: dict[str, list[Row]] = {}
    for row in rows:
        if not row.delegate and row.target != "getitem" and not graph.op(row.op).branches:
            by_operator.setdefault(row.target, []).append(row)
    found = [
        Kernel(
            operator=operator,
            ops=len(left),
            flops=sum(row.flops for row in left),
            dtypes=tuple(sorted({fact.dtype for row in left for fact in graph.op(row.op).outputs})),
        )
        for operator, left in by_operator.items()
    ]
    return tuple(sorted(found, key=lambda kernel: (-kernel.ops, kernel.operator)))


def shared_constants(plan: Plan, graph: OpGraph) -> tuple[SharedConstant, ...]:
    """Constants with several holders, most bytes first. O(V+E)."""
    taken = plan.delegation_of()
    facts: dict[str, tuple[str, int]] = {}
    readers: dict[str, list[str]] = {}
    for given in graph.inputs:
        if not given.constant or given.tensor is None:
            continue
        name = given.target or given.id  # a branch reads it through an input of its own
        facts.setdefault(name, (str(given.tensor), given.tensor.nbytes))
        reading = [op for op in graph.users(given.id) if not graph.op(op).branches]
        readers.setdefault(name, []).extend(reading)
    found = []
    for name, ops in readers.items():
        holders = tuple(dict.fromkeys(taken[op].id if op in taken else "the program" for op in ops))
        if len(holders) > 1:
            tensor, size = facts[name]
            found.append(
                SharedConstant(
                    name=name, tensor=tensor, bytes=size, holders=holders, ops=tuple(ops)
                )
            )
    return tuple(sorted(found, key=lambda one: -one.extra_bytes))
