"""Claims of the stock partitioner that its delegate computes wrongly (ExecuTorch 1.5.1)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from cede.types import Code, Reason, Ref

if TYPE_CHECKING:
    from cede.types import Claim, Op, OpGraph

# Operator -> names of its activation and weight arguments.
_GEMMS = {
    "aten.linear": ("input", "weight"),
    "aten.addmm": ("mat1", "mat2"),
    "aten.mm": ("self", "mat2"),
    "aten.bmm": ("self", "mat2"),
    "aten.convolution": ("input", "weight"),
}
_SHAPE_ONLY = ("aten.permute_copy", "aten.t_copy", "aten.transpose_copy", "aten.view_copy")


def weight_only(claim: Claim, graph: OpGraph) -> Reason | None:
    """Veto a matrix product of a float activation with a quantized weight.

    The delegate drops the weight's scale and returns x @ int_weight. Dynamically or statically
    quantized activations are right.
    """
    for id in claim.ops:
        op = graph.op(id)
        if op.kind not in _GEMMS:
            continue
        activation, weight = _GEMMS[op.kind]
        scale_of = _dequantize(op, weight, graph)
        if scale_of is not None and _dequantize(op, activation, graph) is None:
            return Reason(
                code=Code.QUANT_SCHEME,
                detail=f"weight-only quantization: {op.target} of a float activation with the "
                f"weight of {scale_of.target} would lose the weight's scale; quantize the "
                "activation dynamically (8da4w, 8da8w) to delegate it",
            )
    return None


def grouped_weight(claim: Claim, graph: OpGraph) -> Reason | None:
    """Veto weights quantized in groups other than 4 bits: compiling them fails."""
    for id in claim.ops:
        op = graph.op(id)
        if "dequantize" not in op.target or op.inputs[0] in graph:
            continue
        given = dict(op.args)
        weight = graph.fact(op.inputs[0])
        block = given.get("block_size")
        size = block[-1] if isinstance(block, tuple) else given.get("group_size")
        low, high = given.get("quant_min"), given.get("quant_max")
        if weight is None or size is None or size in (1, weight.shape[-1]):
            continue
        if (low, high) not in ((-8, 7), (0, 15)):
            return Reason(
                code=Code.QUANT_SCHEME,
                detail=f"the weight is quantized to {low}..{high} in groups of {size}; groups are "
                "supported for 4 bits (-8..7) only, other widths per channel",
            )
    return None


def lost_dequantize(claim: Claim, graph: OpGraph) -> Reason | None:
    """Veto a weight's dequantize whose user isn't in the same claim: nothing would apply it."""
    for id in claim.ops:
        op = graph.op(id)
        if "dequantize" not in op.target or op.inputs[0] in graph:
            continue
        outside = [user for user in graph.users(id) if user not in claim.ops]
        if outside:
            return Reason(
                code=Code.QUANT_SCHEME,
                detail=f"the weight's {op.target} is used outside the claim, by {outside[0]}",
            )
    return None


def is_weight_only(node: Any) -> bool:
    """Whether an ATen node belongs to a weight-only product: it must be decomposed."""
    name = str(node.target)
    if "dequantize_affine" in name:
        return node.args[0].op == "placeholder" and any(
            _float_gemm(user) for user in _through_shapes(node)
        )
    return _float_gemm(node) and "dequantize" in str(_behind(node.args[1]).target)


def _float_gemm(node: Any) -> bool:
    if not str(node.target).startswith("aten.linear"):
        return False
    return "dequantize" not in str(node.args[0].target)


def _through_shapes(node: Any) -> list[Any]:
    users = []
    for user in node.users:
        shape_only = str(user.target).startswith(("aten.t.", "aten.permute", "aten.transpose"))
        users.extend(_through_shapes(user) if shape_only else [user])
    return users


def _behind(node: Any) -> Any:
    while str(node.target).startswith(("aten.t.", "aten.permute", "aten.transpose")):
        node = node.args[0]
    return node


def _dequantize(op: Op, name: str, graph: OpGraph) -> Op | None:
    """The dequantize that an argument comes from, through shape-only ops."""
    value = op.arg(name)
    while isinstance(value, Ref) and value.id in graph:
        producer = graph.op(value.id)
        if "dequantize" in producer.target:
            return producer
        if producer.kind not in _SHAPE_ONLY:
            return None
        value = Ref(producer.inputs[0])
    return None
