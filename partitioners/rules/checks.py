"""Constraints on one op, each with the reason that it gives when it isn't met.

A check is a function of an op and its graph that returns None, or a `Reason`. Combine them in a
`Rule`; write your own as a plain function.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, TypeAlias

from cede.types import Code, Op, OpGraph, Reason, Ref

if TYPE_CHECKING:
    from cede.types import Argument, TensorFact

Check: TypeAlias = Callable[[Op, OpGraph], "Reason | None"]


def dtype(*allowed: str) -> Check:
    """Every tensor input and output has one of these dtypes ("float32"); `None` arguments pass."""

    def check(op: Op, graph: OpGraph) -> Reason | None:
        facts = (*_inputs(op, graph), *((f"output {i}", f) for i, f in enumerate(op.outputs)))
        for name, fact in facts:
            if fact.dtype not in allowed:
                return Reason(
                    code=Code.DTYPE,
                    detail=f"{name} is {fact.dtype}, not one of {', '.join(allowed)}",
                )
        return None

    return check


def same_dtype() -> Check:
    """All tensor inputs have one dtype."""

    def check(op: Op, graph: OpGraph) -> Reason | None:
        found = {fact.dtype for _, fact in _inputs(op, graph)}
        if len(found) > 1:
            return Reason(code=Code.DTYPE, detail=f"mixed dtypes: {', '.join(sorted(found))}")
        return None

    return check


def rank(name: str, low: int, high: int | None = None) -> Check:
    """The tensor argument has between `low` and `high` dimensions (exactly `low` without)."""
    most = low if high is None else high

    def check(op: Op, graph: OpGraph) -> Reason | None:
        fact = _fact(op, graph, name)
        if fact is not None and not low <= fact.rank <= most:
            wanted = f"{low}" if low == most else f"{low} to {most}"
            return Reason(
                code=Code.SHAPE, detail=f"{name} is {fact} of rank {fact.rank}, not {wanted}"
            )
        return None

    return check


def divisible(name: str, dim: int, by: int) -> Check:
    """A size of a tensor argument is a multiple."""

    def check(op: Op, graph: OpGraph) -> Reason | None:
        fact = _fact(op, graph, name)
        if fact is None or not -fact.rank <= dim < fact.rank:
            return None
        size = fact.shape[dim]
        if isinstance(size, str) or size % by:
            return Reason(
                code=Code.SHAPE, detail=f"size {size} of {name} in dim {dim} is no multiple of {by}"
            )
        return None

    return check


def static_shape() -> Check:
    """No symbolic size on any side."""

    def check(op: Op, graph: OpGraph) -> Reason | None:
        facts = (*_inputs(op, graph), *((f"output {i}", f) for i, f in enumerate(op.outputs)))
        for name, fact in facts:
            if fact.dynamic:
                return Reason(code=Code.DYNAMIC_SHAPE, detail=f"{name} is {fact}")
        return None

    return check


def argument(name: str, *allowed: Argument) -> Check:
    """An argument (given or default) has one of these values; an absent argument passes."""

    def check(op: Op, graph: OpGraph) -> Reason | None:
        value = _argument(op, name)
        # True == 1 in Python, and an argument may be either.
        if value is _ABSENT or any(
            value == each and isinstance(value, bool) == isinstance(each, bool) for each in allowed
        ):
            return None
        wanted = ", ".join(map(str, allowed))
        return Reason(code=Code.ARGUMENT, detail=f"{name} is {value}, not one of {wanted}")

    return check


def constant(name: str) -> Check:
    """A tensor argument is a parameter, a constant or a buffer that is never written."""

    def check(op: Op, graph: OpGraph) -> Reason | None:
        value = _argument(op, name)
        if not isinstance(value, Ref):
            return None
        given = graph.input(value.id)
        if given is not None and given.constant:
            return None
        if given is None:
            why = f"computed: it comes from {graph.op(value.id).target}"
        elif given.mutated:
            why = f"written by the program: it is the mutated buffer {given.target or given.id}"
        else:
            why = f"given by the {'branch' if given.scope else 'caller'}: {given.id}"
        return Reason(code=Code.NOT_CONSTANT, detail=f"{name} is {why}")

    return check


def produced_by(name: str, *targets: str) -> Check:
    """A tensor argument comes from one of these operators, such as a dequantize."""

    def check(op: Op, graph: OpGraph) -> Reason | None:
        value = _argument(op, name)
        if isinstance(value, Ref) and value.id in graph and graph.op(value.id).target in targets:
            return None
        return Reason(
            code=Code.QUANT_SCHEME, detail=f"{name} doesn't come from {' or '.join(targets)}"
        )

    return check


def quantized(name: str, **wanted: Argument) -> Check:
    """A tensor argument comes from a dequantize whose parameters have these values.

    For example `quantized("input", quant_min=-128, quant_max=127)`.
    """

    def check(op: Op, graph: OpGraph) -> Reason | None:
        value = _argument(op, name)
        producer = graph.op(value.id) if isinstance(value, Ref) and value.id in graph else None
        if producer is None or "dequantize" not in producer.target:
            return Reason(code=Code.QUANT_SCHEME, detail=f"{name} isn't quantized")
        for key, expected in wanted.items():
            given = _argument(producer, key)
            if given is _ABSENT:
                return Reason(code=Code.QUANT_SCHEME, detail=f"{name} is quantized without {key}")
            if given != expected:
                detail = f"{name} is quantized with {key} {given}, not {expected}"
                return Reason(code=Code.QUANT_SCHEME, detail=detail)
        return None

    return check


_ABSENT = object()


def _argument(op: Op, name: str) -> Argument | object:
    try:
        return op.arg(name)
    except KeyError:
        return _ABSENT


def _fact(op: Op, graph: OpGraph, name: str) -> TensorFact | None:
    value = _argument(op, name)
    return graph.fact(value.id) if isinstance(value, Ref) else None


def _inputs(op: Op, graph: OpGraph) -> list[tuple[str, TensorFact]]:
    found = []
    for name, value in op.args:
        refs = value if isinstance(value, tuple) else (value,)
        for ref in refs:
            if isinstance(ref, Ref) and (fact := graph.fact(ref.id)) is not None:
                found.append((name, fact))
    return found
