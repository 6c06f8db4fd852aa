"""Claims of the stock partitioner that its delegate refuses, or computes otherwise than eager.

Each was seen with ExecuTorch 1.5.1 and OpenVINO 2025.4 and 2026.0.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from cede.partitioners.rules import any_of, per_op
from cede.types import Code, Reason, Ref

if TYPE_CHECKING:
    from collections.abc import Iterator

    from cede.types import Argument, Claim, Op, OpGraph, TensorFact

_DTYPES = ("float32", "float16", "int32", "int8", "uint8", "bool", "int64")


def dynamic_shape(claim: Claim, graph: OpGraph) -> Reason | None:
    """Veto symbolic sizes: the delegate returns the largest batch, and other sizes fail."""
    for op, name, fact in _values(claim, graph):
        if fact.dynamic or fact.dtype.startswith("Sym"):
            return Reason(
                code=Code.DYNAMIC_SHAPE,
                detail=f"{name} of {op.target} is {fact}: the delegate is compiled for one shape",
            )
    return None


def dtype(claim: Claim, graph: OpGraph) -> Reason | None:
    """Veto dtypes that the delegate's runtime lacks, and float64, which it computes in float32."""
    for op, name, fact in _values(claim, graph):
        if fact.dtype not in _DTYPES:
            return Reason(
                code=Code.DTYPE,
                detail=f"{name} of {op.target} is {fact}; the delegate computes with "
                f"{', '.join(_DTYPES)}",
            )
    return None


def empty(claim: Claim, graph: OpGraph) -> Reason | None:
    """Veto tensors without elements: the delegate's runtime has no memory to point to."""
    for op, name, fact in _values(claim, graph):
        if 0 in fact.shape:
            return Reason(code=Code.SHAPE, detail=f"{name} of {op.target} is empty: {fact}")
    return None


def layout(claim: Claim, graph: OpGraph) -> Reason | None:
    """Veto layouts other than contiguous: the delegate reads the memory as if it were."""
    for op, name, fact in _values(claim, graph):
        if fact.dim_order != tuple(range(fact.rank)) and fact.dim_order:
            return Reason(
                code=Code.LAYOUT,
                detail=f"{name} of {op.target} lies in memory as {fact.dim_order}: the delegate "
                "would read it as contiguous",
            )
    return None


# Operators whose int64 arguments only point into a dimension, by the name of that argument.
_POINTS = {
    "aten.embedding": "indices",
    "aten.gather": "index",
    "aten.index": "indices",
    "aten.index_select": "index",
    "aten.index_put": "indices",
    "aten.scatter": "index",
}
# Operators whose int64 results are positions or counts.
_COUNTS = (
    "aten.argmax", "aten.argmin", "aten.max", "aten.min", "aten.sort", "aten.topk",
    "aten.max_pool2d_with_indices", "aten.max_pool3d_with_indices",
)  # fmt: skip


@per_op
def wide_integers(op: Op, graph: OpGraph) -> Reason | None:
    """Veto int64 data: the delegate computes with its lower 32 bits. Indices and counts fit."""
    if op.target == "getitem":  # goes with its producer
        return None
    wide = [f"input {used}" for used in _data(op, graph) if _is_wide(used, graph)]
    if op.kind not in _COUNTS:
        wide += ["output" for fact in op.outputs if fact.dtype == "int64"]
    if not wide:
        return None
    return Reason(
        code=Code.DTYPE,
        detail=f"{wide[0]} of {op.target} is int64: the delegate computes with 32 bits "
        "and would lose the others; only indices and positions fit",
    )


def _data(op: Op, graph: OpGraph) -> list[str]:
    """Ids of what an op reads beside indices and constants."""
    points = op.arg(_POINTS[op.kind]) if op.kind in _POINTS else None
    indices = {ref.id for ref in _refs(points)}
    return [used for used in op.inputs if used not in indices]


def _refs(value: Argument) -> tuple[Ref, ...]:
    values = value if isinstance(value, tuple) else (value,)
    return tuple(each for each in values if isinstance(each, Ref))


def _is_wide(id: str, graph: OpGraph) -> bool:
    given, fact = graph.input(id), graph.fact(id)
    return fact is not None and fact.dtype == "int64" and not (given and given.constant)


def _values(claim: Claim, graph: OpGraph) -> Iterator[tuple[Op, str, TensorFact]]:
    """Tensors that the claim's ops read and make, each with its op and a name for messages.

    Of several results those that somebody reads: a normalization has empty ones beside.
    """
    for id in sorted(claim.ops, key=graph.position):
        op = graph.op(id)
        if op.target == "getitem":  # goes with its producer
            continue
        for used in op.inputs:
            if (fact := graph.fact(used)) is not None:
                yield op, f"input {used}", fact
        read = [user for user in map(graph.op, graph.users(id)) if user.target == "getitem"]
        for made in read or (op,):
            for fact in made.outputs:
                yield op, "output" if made is op else f"output {made.id}", fact


wrong = any_of(dynamic_shape, dtype, wide_integers, empty, layout)
"""What the delegate refuses or gets wrong whoever claims it."""
