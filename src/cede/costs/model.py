"""Costs laid over one graph: seconds of each op on each target, and of each value at a border."""

from __future__ import annotations

import math
from bisect import bisect_left
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

    from cede.types import Costs, GraphInput, Op, OpGraph, Rates, TensorFact

Curve = tuple[list[float], list[float]]
"""Logarithms of work and of seconds, by rising work."""


@dataclass(frozen=True, slots=True)
class Value:
    """Something that ops pass on.

    Attributes:
        producer: position of its op, -1 for what the caller gives.
        tensors: what it consists of, symbolic numbers left out.
        readers: positions of the ops that read it.
        leaves: whether the caller gets it.
    """

    producer: int
    tensors: tuple[TensorFact, ...]
    readers: tuple[int, ...]
    leaves: bool


class CostModel:
    """Seconds for everything in a graph.

    A control-flow op itself costs nothing; its branches count as if each ran once. The inputs of a
    branch are produced, and what it returns is read, by the control-flow op.

    Args:
        graph: the facts.
        costs: rates and given seconds.

    Attributes:
        values: what may cross a border; constants, which a delegate holds itself, may not.
    """

    def __init__(self, graph: OpGraph, costs: Costs) -> None:
        self.graph, self.costs = graph, costs
        self.values = _values(graph)
        self._compute: dict[str, list[float]] = {}

    def compute(self, backend: str) -> list[float]:
        """Seconds of each op, by position, on a backend; "" is the fallback.

        Raises:
            KeyError: costs have no rates for that backend.
        """
        if backend not in self._compute:
            rates = self.costs.backends[backend] if backend else self.costs.fallback
            given, curves = self.costs.given, _curves(rates)
            self._compute[backend] = [
                given[backend, op.id]
                if (backend, op.id) in given and not op.bookkeeping
                else op_seconds(op, self.graph, rates, curves)
                for op in self.graph.ops
            ]
        return self._compute[backend]

    def crossing(self, value: Value, backend: str) -> float:
        """Seconds for a value to enter or to leave a delegate of that backend."""
        rates = self.costs.backends[backend]
        total = 0.0
        for fact in value.tensors:
            total += rates.border_seconds + fact.nbytes / rates.border_bytes_per_second
            if _converted(fact, rates):
                total += 2 * fact.nbytes / rates.bytes_per_second
        return total

    def launch(self, backend: str) -> float:
        """Seconds for each call of a delegate of that backend."""
        return self.costs.backends[backend].launch_seconds

    def crossed(self, value: Value, of: Sequence[int]) -> list[int]:
        """The groups whose border a value crosses, the one that it leaves included.

        A value that enters a group is counted once however many ops there read it.

        Args:
            value: one of `values`.
            of: per op its group, -1 for the fallback.
        """
        own = of[value.producer] if value.producer >= 0 else -1
        others = {of[reader] for reader in value.readers}
        others.discard(own)
        found = sorted(others - {-1})
        if own >= 0 and (others or value.leaves):
            found.append(own)
        return found


def op_seconds(op: Op, graph: OpGraph, rates: Rates, curves: dict[str, Curve]) -> float:
    """Seconds of one op by rates; 0 for what computes no tensor."""
    if op.branches or op.bookkeeping:
        return 0.0
    moved = moved_bytes(op, graph)
    streaming = moved / rates.bytes_per_second
    curve = curves.get(f"{op.kind}/{op.outputs[0].dtype}")
    if curve is not None:
        return max(_read_off(curve, float(op.flops or moved)), streaming)
    return max(op.flops / rates.flops_per_second, streaming) + rates.op_seconds


def moved_bytes(op: Op, graph: OpGraph, constants: bool = True) -> int:
    """Bytes that an op reads and writes, each value once; with or without constants."""
    total = sum(fact.nbytes for fact in op.outputs)
    for used in op.inputs:
        if (given := graph.input(used)) is not None:
            if given.tensor is not None and (constants or not given.constant):
                total += given.tensor.nbytes
        elif used in graph:
            total += sum(fact.nbytes for fact in graph.op(used).outputs)
    return total


def _curves(rates: Rates) -> dict[str, Curve]:
    return {
        f"{given.kind}/{given.dtype}": (
            [math.log(work) for work, _ in given.points],
            [math.log(took) for _, took in given.points],
        )
        for given in rates.measured
    }


def _read_off(curve: Curve, work: float) -> float:
    """Seconds at some work: a power law between two points, flat below, in proportion above."""
    works, times = curve
    at = math.log(work) if work > 0 else -math.inf
    if at <= works[0]:
        return math.exp(times[0])
    if at >= works[-1]:
        return math.exp(times[-1] + at - works[-1])
    right = bisect_left(works, at)
    left = right - 1
    share = (at - works[left]) / (works[right] - works[left])
    return math.exp(times[left] + share * (times[right] - times[left]))


def _converted(fact: TensorFact, rates: Rates) -> bool:
    wrong_layout = (
        fact.rank == len(rates.dim_order) > 0
        and bool(fact.dim_order)
        and fact.dim_order != rates.dim_order
    )
    floating = "float" in fact.dtype
    return wrong_layout or (floating and bool(rates.dtypes) and fact.dtype not in rates.dtypes)


def _values(graph: OpGraph) -> list[Value]:
    flows = {name: i for i, op in enumerate(graph.ops) for name in op.branches}
    returned = {*graph.outputs, *(id for _, id in graph.mutations)}
    read_by_flow: dict[str, list[int]] = {}
    for scope, ids in graph.returns:
        for id in ids:
            if scope in flows:
                read_by_flow.setdefault(id, []).append(flows[scope])
    found = []
    for given in graph.inputs:
        if not given.constant:
            found.append(_input(given, graph, flows, read_by_flow))
    for i, op in enumerate(graph.ops):
        readers = (*map(graph.position, graph.users(op.id)), *read_by_flow.get(op.id, ()))
        found.append(Value(i, _tensors(op.outputs), readers, op.id in returned))
    return [value for value in found if value.tensors and (value.readers or value.leaves)]


def _input(
    given: GraphInput, graph: OpGraph, flows: dict[str, int], read_by_flow: dict[str, list[int]]
) -> Value:
    tensors = _tensors((given.tensor,)) if given.tensor is not None else ()
    readers = (*map(graph.position, graph.users(given.id)), *read_by_flow.get(given.id, ()))
    return Value(flows.get(given.scope, -1), tensors, readers, False)


def _tensors(facts: tuple[TensorFact, ...]) -> tuple[TensorFact, ...]:
    return tuple(fact for fact in facts if not fact.dtype.startswith("Sym"))
