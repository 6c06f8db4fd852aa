"""Arguments that coremltools' converters refuse or ignore."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from cede.types import Code, Reason, Ref

if TYPE_CHECKING:
    from collections.abc import Callable

    from cede.types import Argument, Op, OpGraph, TensorFact


def unfit(op: Op, graph: OpGraph) -> Reason | None:
    """Why Core ML can't compute this op as it is called, None if it can."""
    check = _CHECKS.get(op.kind)
    return None if check is None else check(op, graph)


def decomposes(node: Any) -> bool:
    """Whether an ATen node must be decomposed: kept whole, it would be refused by `unfit`."""
    name = str(node.target).rpartition(".")[0]
    if name not in _DECOMPOSED:
        return False
    values = dict(zip((a.name for a in node.target._schema.arguments), node.args, strict=False))
    values.update(node.kwargs)
    if name == "aten.rms_norm":
        return True
    if name in ("aten.addmm", "aten.baddbmm"):
        return any(values.get(key, 1) != 1 for key in ("alpha", "beta"))
    if name == "aten.matmul":
        return any(given.meta["val"].dim() < 2 for given in node.args)
    if name == "aten.scaled_dot_product_attention":
        return bool(values.get("enable_gqa", False))
    return bool(values.get("threshold", _THRESHOLD) != _THRESHOLD)


_THRESHOLD = 20
_DECOMPOSED = (
    "aten.addmm",
    "aten.baddbmm",
    "aten.matmul",
    "aten.rms_norm",
    "aten.scaled_dot_product_attention",
    "aten.softplus",
)


def _only(name: str, allowed: tuple[Argument, ...], why: str) -> Callable[..., Reason | None]:
    def check(op: Op, graph: OpGraph) -> Reason | None:
        value = dict(op.args).get(name, allowed[0])
        if value in allowed:
            return None
        return Reason(code=Code.ARGUMENT, detail=f"{name} is {value}: {why}")

    return check


def _always(code: Code, why: str) -> Callable[..., Reason | None]:
    return lambda op, graph: Reason(code=code, detail=f"{op.target}: {why}")


def _scaled(op: Op, graph: OpGraph) -> Reason | None:
    given = {name: value for name, value in op.args if name in ("alpha", "beta")}
    if all(value == 1 for value in given.values()):
        return None
    return Reason(code=Code.ARGUMENT, detail=f"{op.target} with {given}: only 1 compiles")


def _unbatched(op: Op, graph: OpGraph) -> Reason | None:
    given, weight = (_fact(op, name, graph) for name in ("input", "weight"))
    if given is None or weight is None or given.rank == weight.rank:
        return None
    return Reason(code=Code.SHAPE, detail=f"input {given} has no batch dimension")


def _vectors(op: Op, graph: OpGraph) -> Reason | None:
    for used in op.inputs:
        fact = graph.fact(used)
        if fact is not None and fact.rank < 2:
            return Reason(code=Code.SHAPE, detail=f"{op.target} of the vector {fact}")
    return None


def _bits(op: Op, graph: OpGraph) -> Reason | None:
    fact = next((fact for used in op.inputs if (fact := graph.fact(used)) is not None), None)
    if fact is None or fact.dtype == "bool":
        return None
    return Reason(code=Code.DTYPE, detail=f"{op.target} of {fact}: Core ML has it for bool only")


def _pad(op: Op, graph: OpGraph) -> Reason | None:
    given = dict(op.args)
    if given.get("mode", "constant") == "circular":
        return Reason(code=Code.ARGUMENT, detail="mode is circular, which Core ML doesn't have")
    sizes = given.get("pad")
    if isinstance(sizes, tuple) and any(isinstance(size, int) and size < 0 for size in sizes):
        return Reason(code=Code.ARGUMENT, detail=f"pad is {sizes}: Core ML can't cut by padding")
    return None


def _scalar(op: Op, graph: OpGraph) -> Reason | None:
    if op.arg("size") != ():
        return None
    return Reason(code=Code.SHAPE, detail="size is (): coremltools makes no tensor of rank 0")


def _fact(op: Op, name: str, graph: OpGraph) -> TensorFact | None:
    value = dict(op.args).get(name)
    return graph.fact(value.id) if isinstance(value, Ref) else None


_DILATED = _only("dilation", ((), 1, (1,), (1, 1), (1, 1, 1)), "max_pool has no dilation")
_UNDIVIDED = _only("divisor_override", (None,), "avg_pool divides by the size of its window")

_CHECKS: dict[str, Callable[[Op, OpGraph], Reason | None]] = {
    **dict.fromkeys(("aten.addmm", "aten.baddbmm"), _scaled),
    **dict.fromkeys(("aten.avg_pool1d", "aten.avg_pool2d", "aten.avg_pool3d"), _UNDIVIDED),
    **dict.fromkeys(("aten.max_pool1d", "aten.max_pool2d", "aten.max_pool3d"), _DILATED),
    "aten.max_pool2d_with_indices": _DILATED,
    **dict.fromkeys(
        (
            "aten.conv1d",
            "aten.conv2d",
            "aten.conv3d",
            "aten.convolution",
            "aten.conv_transpose1d",
            "aten.conv_transpose2d",
        ),
        _unbatched,
    ),
    **dict.fromkeys(tuple(f"aten.bitwise_{name}" for name in ("and", "or", "xor", "not")), _bits),
    "aten.full": _scalar,
    "aten.matmul": _vectors,
    "aten.pad": _pad,
    "aten.constant_pad_nd": _pad,
    "aten.reciprocal": _always(
        Code.DECLINED, "coremltools computes 1 / (x + 1e-4); write 1 / x as a division"
    ),
    "aten.rms_norm": _always(Code.DECLINED, "coremltools wants an eps, which aten may leave out"),
    "aten.scaled_dot_product_attention": _only(
        "enable_gqa", (False,), "Core ML wants as many key heads as query heads"
    ),
    "aten.softplus": _only("threshold", (_THRESHOLD,), "the switch to x above it is dropped"),
}
