"""Claims of ExecuTorch's MLX partitioner that its delegate gets wrong (ExecuTorch 1.5.1).

The stock partitioner takes an op if its handler runs; some handlers ignore arguments. Each veto
here was found by lowering the op alone, reading the program back and executing it with mlx 0.32.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from cede.types import Code, Reason, Ref

if TYPE_CHECKING:
    from collections.abc import Callable

    from cede.types import Claim, Op, OpGraph, TensorFact


def arguments(claim: Claim, graph: OpGraph) -> Reason | None:
    """Veto arguments that the handler of an op ignores or gets wrong."""
    for id in sorted(claim.ops):
        op = graph.op(id)
        check = _CHECKS.get(op.kind)
        if check is not None and (reason := check(op, graph)) is not None:
            return reason
    return None


def sizes(claim: Claim, graph: OpGraph) -> Reason | None:
    """Veto sizes that depend on data: no delegate's border can have them."""
    for id in sorted(claim.ops):
        op = graph.op(id)
        given = [fact for used in op.inputs if (fact := graph.fact(used)) is not None]
        for fact in (*given, *op.outputs):
            if fact.unbacked:
                return Reason(
                    code=Code.DYNAMIC_SHAPE, detail=f"{fact} has a size that depends on data"
                )
    return None


def _must(name: str, wanted: bool, why: str) -> Callable[[Op, OpGraph], Reason | None]:
    def check(op: Op, graph: OpGraph) -> Reason | None:
        value = dict(op.args).get(name, wanted)
        if value == wanted:
            return None
        return Reason(code=Code.ARGUMENT, detail=f"{name} is {value}, which is ignored: {why}")

    return check


def _index(op: Op, graph: OpGraph) -> Reason | None:
    x = graph.fact(op.inputs[0])
    given = op.arg("indices")
    if x is None or not isinstance(given, tuple):
        return None
    places = [i for i, each in enumerate(given) if isinstance(each, Ref)]
    facts = [graph.fact(each.id) for each in given if isinstance(each, Ref)]
    if any(fact is not None and fact.dtype == "bool" for fact in facts):
        return Reason(code=Code.DTYPE, detail="MLX gathers by integers, these indices are bool")
    if len(facts) == 1 and facts[0] is not None and facts[0].rank == x.rank > 1:
        return Reason(
            code=Code.SHAPE,
            detail=f"{facts[0]} indexes {x} of the same rank: that is compiled as a gather of"
            " single elements",
        )
    adjacent = places == list(range(places[0], places[-1] + 1)) if places else False
    if len(places) > 1 and adjacent and places[0] > 0:
        return Reason(
            code=Code.SHAPE, detail=f"several indices from dimension {places[0]} on: the result's"
            " dimensions come out in another order",
        )  # fmt: skip
    return None


def _state(op: Op, graph: OpGraph) -> Reason | None:
    return Reason(
        code=Code.DECLINED,
        detail="MLX has it as a write to state that its delegate owns, and state is the program's",
    )


def _whole_numbers(op: Op, graph: OpGraph) -> Reason | None:
    given = {name: dict(op.args).get(name) for name in ("start", "end", "step")}
    broken = [f"{name} {value}" for name, value in given.items() if isinstance(value, float)]
    if all(float(text.rpartition(" ")[2]).is_integer() for text in broken):
        return None
    return Reason(code=Code.ARGUMENT, detail=f"arange by {', '.join(broken)}: it would be cut")


def _power(op: Op, graph: OpGraph) -> Reason | None:
    fact, exponent = graph.fact(op.inputs[0]), dict(op.args).get("exponent")
    if fact is None or "int" not in fact.dtype or not isinstance(exponent, float):
        return None
    return Reason(code=Code.DTYPE, detail=f"{fact} to the power {exponent}, which would be cut")


def _shared(op: Op, graph: OpGraph) -> Reason | None:
    """The compiler names constants by value alone, so that the first dtype stands for all."""
    if "int" not in op.outputs[0].dtype:
        return None
    bounds = {value for _, value in op.args if isinstance(value, (int, float))}
    for other in graph.ops:
        if other.outputs and other.outputs[0].dtype.startswith("float"):
            shared = [v for _, v in other.args if isinstance(v, (int, float)) and v in bounds]
            if shared:
                return Reason(
                    code=Code.DTYPE,
                    detail=f"the bound {shared[0]} of {op.outputs[0]} is also a number of"
                    f" {other.target} of {other.outputs[0]}, and would be taken in its dtype",
                )
    return None


def _unbatched(op: Op, graph: OpGraph) -> Reason | None:
    given, weight = (_fact(op, name, graph) for name in ("input", "weight"))
    if given is None or weight is None or given.rank == weight.rank:
        return None
    return Reason(code=Code.SHAPE, detail=f"input {given} has no batch dimension")


def _cut(op: Op, graph: OpGraph) -> Reason | None:
    sizes = dict(op.args).get("pad")
    if isinstance(sizes, tuple) and any(isinstance(size, int) and size < 0 for size in sizes):
        return Reason(code=Code.ARGUMENT, detail=f"pad is {sizes}: MLX can't cut by padding")
    return None


def _fact(op: Op, name: str, graph: OpGraph) -> TensorFact | None:
    value = dict(op.args).get(name)
    return graph.fact(value.id) if isinstance(value, Ref) else None


_ASCENDING = _must("descending", False, "it sorts in ascending order")

_CHECKS: dict[str, Callable[[Op, OpGraph], Reason | None]] = {
    **dict.fromkeys(("aten.sort", "aten.argsort"), _ASCENDING),
    **dict.fromkeys(("aten.conv1d", "aten.conv2d", "aten.conv3d", "aten.convolution"), _unbatched),
    **dict.fromkeys(("aten.pad", "aten.constant_pad_nd"), _cut),
    "aten.arange": _whole_numbers,
    "aten.clamp": _shared,
    "aten.index": _index,
    "aten.index_copy": _state,
    "aten.pow": _power,
    "aten.topk": _must("largest", True, "it takes the largest"),
}
