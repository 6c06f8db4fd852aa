"""Claims of the stock partitioner that its delegate computes wrongly (ExecuTorch 1.5.1)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from cede.partitioners.rules import any_of, per_op
from cede.types import Code, Reason, Ref

if TYPE_CHECKING:
    from cede.types import Claim, Op, OpGraph, TensorFact

# Operator -> names of its activation and weight arguments.
_GEMMS = {
    "aten.linear": ("input", "weight"),
    "aten.addmm": ("mat1", "mat2"),
    "aten.mm": ("self", "mat2"),
    "aten.bmm": ("self", "mat2"),
    "aten.convolution": ("input", "weight"),
}
_SHAPE_ONLY = ("aten.permute_copy", "aten.t_copy", "aten.transpose_copy", "aten.view_copy")


@per_op
def weight_only(op: Op, graph: OpGraph) -> Reason | None:
    """Veto a matrix product of a float activation with a quantized weight.

    The delegate drops the weight's scale and returns x @ int_weight. Dynamically or statically
    quantized activations are right.
    """
    if op.kind not in _GEMMS:
        return None
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


@per_op
def grouped_weight(op: Op, graph: OpGraph) -> Reason | None:
    """Veto weights quantized in groups other than 4 bits: compiling them fails."""
    if "dequantize" not in op.target or op.inputs[0] in graph:
        return None
    given = dict(op.args)
    weight = graph.fact(op.inputs[0])
    block = given.get("block_size")
    size = block[-1] if isinstance(block, tuple) else given.get("group_size")
    low, high = given.get("quant_min"), given.get("quant_max")
    if weight is None or size is None or size in (1, weight.shape[-1]):
        return None
    if (low, high) not in ((-8, 7), (0, 15)):
        return Reason(
            code=Code.QUANT_SCHEME,
            detail=f"the weight is quantized to {low}..{high} in groups of {size}; groups are "
            "supported for 4 bits (-8..7) only, other widths per channel",
        )
    return None


@per_op
def approximate_gelu(op: Op, graph: OpGraph) -> Reason | None:
    """Veto the tanh form of GELU: the delegate ignores the argument and computes the exact one."""
    if op.kind == "aten.gelu" and (form := dict(op.args).get("approximate", "none")) != "none":
        return Reason(
            code=Code.ARGUMENT,
            detail=f"approximate={form!r} would be ignored: the delegate computes the exact"
            " GELU, off by up to 5e-4; use approximate='none' in the model to delegate it",
        )
    return None


@per_op
def shared_constant(op: Op, graph: OpGraph) -> Reason | None:
    """Veto another reader of a constant that a matrix product packs.

    XNNPACK lets go of the constant once it is packed. Where the program was loaded from a file, the
    other reader then reads freed memory, and the process dies.
    """
    if _packs(op.id, graph):
        return None
    for used in op.inputs:
        given = graph.input(used)
        if given is None or not given.constant:
            continue
        packer = next((user for user in graph.users(used) if _packs(user, graph)), None)
        if packer is not None:
            return Reason(
                code=Code.DECLINED,
                detail=f"it reads {given.target or used}, which {packer} packs as a weight or"
                " bias: a delegate lets go of a constant once it is packed",
            )
    return None


def _packs(id: str, graph: OpGraph) -> bool:
    """Whether an op packs the constants that it reads, perhaps through shape-only ops."""
    op = graph.op(id)
    if op.kind in _SHAPE_ONLY:
        return any(_packs(user, graph) for user in graph.users(id))
    return op.kind in _GEMMS


# Ops that read a constant as they read any tensor.
_PLAIN = ("add", "sub", "mul", "div", "maximum", "minimum", "cat")
_READ_PLAINLY = tuple(f"aten.{name}" for name in _PLAIN)


def holds(constant: str, graph: OpGraph) -> bool:
    """Whether a delegate takes a constant in: not where its ops only read it as any tensor.

    Its bytes are fewer outside, where they need no key of their own, and the stock partitioner
    leaves it there.
    """
    users = graph.users(constant)
    return not users or any(graph.op(user).kind not in _READ_PLAINLY for user in users)


_INTEGERS = ("int8", "uint8", "int16", "int32", "int64", "bool")


@per_op
def integer_data(op: Op, graph: OpGraph) -> Reason | None:
    """Veto integers outside quantization: an integer weight would be read as if it were float.

    Some torchao tensors export no dequantize at all, but the integer weight, a conversion, the
    product and a multiplication by the scale.
    """
    if "quant" in op.target or "qparams" in op.target or op.target == "getitem":
        return None
    given = [fact for used in op.inputs if (fact := graph.fact(used)) is not None]
    for fact in (*given, *op.outputs):
        if fact.dtype in _INTEGERS:
            return Reason(
                code=Code.DTYPE,
                detail=f"{op.target} of {fact}: integers outside a quantize and dequantize "
                "pair would be read as floats; a weight-only quantized product needs its "
                "activation quantized dynamically (8da4w, 8da8w)",
            )
    return None


@per_op
def wide_numbers(op: Op, graph: OpGraph) -> Reason | None:
    """Veto float64 and complex numbers: their bytes would be read as those of float32."""
    for fact in _numbers(op, graph):
        if (fact.dtype == "float64" or fact.dtype.startswith("complex")) and fact.rank:
            return Reason(
                code=Code.DTYPE,
                detail=f"{op.target} of {fact}: the delegate computes with float32 and float16",
            )
    return None


def _numbers(op: Op, graph: OpGraph) -> list[TensorFact]:
    """What an op reads and gives, without scales: those of dynamic quantization are float64."""
    found = [graph.fact(used) for used in op.inputs]
    if "dequantize" in op.target:
        found = []
    elif "quantize" in op.target or "qparams" in op.target:
        return [fact for fact in found[:1] if fact is not None]
    elif op.target == "getitem" and op.inputs[0] in graph:
        if "qparams" in graph.op(op.inputs[0]).target:
            return []
    return [fact for fact in (*found, *op.outputs) if fact is not None]


def returned_clone(claim: Claim, graph: OpGraph) -> Reason | None:
    """Veto a clone of a value that leaves the program too: one value can't be handed out twice."""
    leaving = {*graph.outputs, *(op for _, op in graph.mutations)}
    for id in claim.ops:
        op = graph.op(id)
        if "clone" in op.target and id in leaving and op.inputs[0] in leaving:
            return Reason(
                code=Code.DECLINED,
                detail=f"{op.target} is returned beside its input {op.inputs[0]}: a delegate "
                "drops the clone and can't return one value twice",
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


@per_op
def prelu_rank(op: Op, graph: OpGraph) -> Reason | None:
    """Veto a PReLU of anything but four dimensions: compiling it fails."""
    if op.kind == "aten.prelu" and op.outputs[0].rank != 4:
        return Reason(
            code=Code.SHAPE,
            detail=f"{op.target} of {op.outputs[0]}: the delegate computes it in channels last "
            "and compiles four dimensions only",
        )
    return None


def is_prelu_of_other_rank(node: Any) -> bool:
    """Whether `prelu_rank` will refuse an ATen node: it must be decomposed."""
    return str(node.target) == "aten.prelu.default" and node.meta["val"].dim() != 4


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


wrong = any_of(integer_data, wide_numbers, approximate_gelu, prelu_rank)
"""What comes out wrong whoever claims it."""
