"""Claims of the stock partitioner that don't compile or come out wrong (coremltools 9.0).

The stock partitioner asks whether coremltools has a converter of the operator's name, and looks at
few arguments. Each veto here was found by lowering the op alone, reading the model back and
executing it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from cede.backends.coreml.arguments import unfit
from cede.partitioners.rules import any_of
from cede.types import Code, Reason, Ref

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from cede.types import Argument, Claim, Op, OpGraph, TensorFact

_DTYPES = ("float32", "float16", "int64", "int32", "int16", "bool", "SymInt", "SymBool")
_RANK = 5
_LARGEST = 2**31 - 1


def arguments(claim: Claim, graph: OpGraph) -> Reason | None:
    """Veto arguments that the converter of an op refuses or ignores."""
    for id in sorted(claim.ops):
        if (reason := unfit(graph.op(id), graph)) is not None:
            return reason
    return None


def tensors(claim: Claim, graph: OpGraph) -> Reason | None:
    """Veto dtypes, ranks and sizes that Core ML doesn't have."""
    for id in sorted(claim.ops):
        op = graph.op(id)
        for fact in _facts(op, graph):
            if (reason := _tensor(op, fact)) is not None:
                return reason
    return None


def _tensor(op: Op, fact: TensorFact) -> Reason | None:
    if fact.dtype not in _DTYPES and "quant" not in op.target:
        note = "; it would compute in float32" if fact.dtype == "float64" else ""
        return Reason(
            code=Code.DTYPE, detail=f"Core ML has no {fact.dtype}: {op.target} of {fact}{note}"
        )
    if fact.rank > _RANK:
        return Reason(
            code=Code.SHAPE, detail=f"Core ML has tensors of rank up to {_RANK}, this is {fact}"
        )
    if fact.unbacked:
        return Reason(
            code=Code.DYNAMIC_SHAPE,
            detail=f"{fact} has a size that depends on data, which no delegate's border can have",
        )
    return None


def wide_integers(claim: Claim, graph: OpGraph) -> Reason | None:
    """Veto numbers that don't fit into Core ML's 32-bit integers."""
    for id in sorted(claim.ops):
        op = graph.op(id)
        if _wide(op, graph):
            return Reason(
                code=Code.DTYPE,
                detail=f"Core ML computes integers in 32 bits: an argument of {op.target} is wider",
            )
    return None


def _wide(op: Op, graph: OpGraph) -> bool:
    # Ends of slices are cut to the size of the tensor; other whole numbers are computed with.
    if "slice" in op.target or not any(fact.dtype == "int64" for fact in _facts(op, graph)):
        return False
    return any(
        isinstance(value, int) and abs(value) > _LARGEST
        for _, argument in op.args
        for value in _flat(argument)
    )


def exact_gelu(claim: Claim, graph: OpGraph) -> Reason | None:
    """Veto gelu's tanh form: the exact one is compiled, which differs by up to 5e-4."""
    for id in sorted(claim.ops):
        op = graph.op(id)
        if op.kind == "aten.gelu" and op.arg("approximate") != "none":
            return Reason(
                code=Code.ARGUMENT,
                detail="approximate='tanh' is dropped, and the exact gelu differs by up to 5e-4;"
                " ask for compute_precision float16 to accept that",
            )
    return None


def without_inputs(graph: OpGraph) -> Callable[[Claim, OpGraph], Reason | None]:
    """A veto for ops that depend on constants alone: their delegate might have no inputs."""
    reached = {given.id for given in graph.inputs if not given.constant}
    for op in graph.ops:
        if any(used in reached for used in op.inputs):
            reached.add(op.id)

    def veto(claim: Claim, graph: OpGraph) -> Reason | None:
        for id in sorted(claim.ops):
            if id not in reached:
                return Reason(
                    code=Code.DECLINED,
                    detail=f"{graph.op(id).target} depends on no input, and a delegate without"
                    " inputs needs minimum_deployment_target iOS18 or newer",
                )
        return None

    return veto


def _flat(argument: Argument) -> Iterator[Argument]:
    if isinstance(argument, tuple):
        for each in argument:
            yield from _flat(each)
    elif not isinstance(argument, Ref):
        yield argument


def _facts(op: Op, graph: OpGraph) -> list[TensorFact]:
    given = [fact for used in op.inputs if (fact := graph.fact(used)) is not None]
    return [*given, *op.outputs]


wrong = any_of(tensors, arguments, wide_integers)
"""What doesn't compile or comes out wrong whoever claims it."""
