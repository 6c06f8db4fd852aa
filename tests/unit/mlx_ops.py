"""What the nodes of an MLX program compute, by the function of mlx that each is named after."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import mlx.core as mx
import numpy as np
import torch
from executorch.exir.tensor import get_scalar_type
from mlx import nn

if TYPE_CHECKING:
    from collections.abc import Callable

Fields = dict[str, Any]


class Machine:
    """Tensor and number slots; constants are there from the start."""

    def __init__(self, constants: dict[int, torch.Tensor]) -> None:
        self.tensors: dict[int, Any] = {}
        self.numbers: dict[int, Any] = {}
        for slot, value in constants.items():
            self.put(slot, value)

    def put(self, slot: int, value: torch.Tensor) -> None:
        self.tensors[slot] = mx.array(value.detach().numpy())

    def get(self, slot: int) -> torch.Tensor:
        return torch.from_numpy(np.array(self.tensors[slot]))

    def step(self, instruction: Fields) -> None:
        """Run one instruction."""
        name = instruction["op_name"]
        fields = {
            key: self._value(value)
            for key, value in instruction.items()
            if key not in ("out", "outs", "op_name", "op_type", "instr_idx")
        }
        result = NODES[name](fields)
        if "outs" in instruction:
            for target, value in zip(instruction["outs"], result, strict=True):
                self.tensors[_slot(target)] = value
        elif "vid" in instruction["out"]:
            self.numbers[instruction["out"]["vid"]] = result
        else:
            self.tensors[instruction["out"]["tid"]] = result

    def _value(self, field: Any) -> Any:
        if isinstance(field, list):
            return [self._value(each) for each in field]
        if isinstance(field, str) and field.startswith("tid "):
            return self.tensors[_slot(field)]
        if isinstance(field, dict):
            if "tid" in field:
                return self.tensors[field["tid"]]
            return self.numbers[field["vid"]] if "vid" in field else field["literal"]
        return field


def _slot(text: str) -> int:
    return int(text.removeprefix("tid "))


def _dtype(scalar_type: int) -> Any:
    names = {torch.bool: "bool_"}
    kind = get_scalar_type(scalar_type)
    return getattr(mx, names.get(kind, str(kind).removeprefix("torch.")))


def _one(call: Callable[..., Any]) -> Callable[[Fields], Any]:
    return lambda given: call(given["x"])


def _two(call: Callable[..., Any]) -> Callable[[Fields], Any]:
    return lambda given: call(given["a"], given["b"])


def _reduce(call: Callable[..., Any]) -> Callable[[Fields], Any]:
    return lambda given: call(given["x"], axis=given["axes"] or None, keepdims=given["keepdims"])


def _addmm(given: Fields) -> Any:
    product = given["mat1"] @ given["mat2"]
    if "bias" not in given:
        return product if given["alpha"] == 1 else product * given["alpha"]
    return mx.addmm(given["bias"], given["mat1"], given["mat2"], given["alpha"], given["beta"])


def _broadcast(given: Fields) -> Any:
    x, shape = given["x"], given["shape"]
    own = [1] * (len(shape) - x.ndim) + list(x.shape)
    # As in torch's expand, -1 keeps a size.
    return mx.broadcast_to(
        x, [have if want < 0 else want for have, want in zip(own, shape, strict=True)]
    )


def _gather(given: Fields) -> Any:
    x, axes, sizes = given["x"], given["axes"], given["slice_sizes"]
    assert all(sizes[axis] == 1 for axis in axes)
    rest = [axis for axis in range(x.ndim) if axis not in axes]
    indices = mx.broadcast_arrays(*given["indices"])
    taken = mx.transpose(x, [*axes, *rest])[tuple(indices)]
    first = tuple(slice(None) for _ in indices[0].shape)
    taken = taken[(*first, *(slice(0, sizes[axis]) for axis in rest))]
    return taken.reshape(*indices[0].shape, *sizes)


def _slice(given: Fields) -> Any:
    x, axis = given["x"], given["axis"] % given["x"].ndim
    places = [slice(None)] * x.ndim
    places[axis] = slice(given["start"], min(given["stop"], x.shape[axis]), given["step"])
    return x[tuple(places)]


def _squeeze(given: Fields) -> Any:
    x = given["x"]
    axes = [axis for axis in given["dims"] if x.shape[axis] == 1]
    if given["dims"] and not axes:  # as in torch, other sizes stay
        return x
    return mx.squeeze(x, axes or None)


def _split(given: Fields) -> Any:
    sizes, x, axis = given["sizes"], given["x"], given["axis"]
    if len(sizes) == 1:  # the size of each part
        return mx.split(x, list(range(sizes[0], x.shape[axis], sizes[0])), axis)
    return mx.split(x, [sum(sizes[: i + 1]) for i in range(len(sizes) - 1)], axis)


def _take(given: Fields) -> Any:
    x, index, axis = given["x"], given["index"], given["axis"]
    return mx.take(x, index % x.shape[axis] if isinstance(index, int) else index, axis)


def _pad(given: Fields) -> Any:
    flat = given["pad_width"]
    pairs = list(zip(flat[::2], flat[1::2], strict=True))
    return mx.pad(given["x"], pairs, given["mode"], constant_values=given["constant_value"])


def _sdpa(given: Fields) -> Any:
    mask = "causal" if given["causal"] else given.get("mask")
    return mx.fast.scaled_dot_product_attention(
        given["q"], given["k"], given["v"], scale=given["scale"], mask=mask
    )


def _conv2d(given: Fields) -> Any:
    pairs = ((given[f"{name}_h"], given[f"{name}_w"]) for name in ("stride", "padding", "dilation"))
    return mx.conv2d(given["x"], given["w"], *pairs, groups=given["groups"])


def _conv1d(given: Fields) -> Any:
    sizes = (given[name] for name in ("stride", "padding", "dilation", "groups"))
    return mx.conv1d(given["x"], given["w"], *sizes)


def _arange(given: Fields) -> Any:
    kind = given.get("scalar_type")
    dtype = None if kind is None else _dtype(kind)
    return mx.arange(given["start"], given["stop"], given["step"], dtype=dtype)


def _gelu(given: Fields) -> Any:
    return {"none": nn.gelu, "tanh": nn.gelu_approx}[given["approximate"]](given["x"])


def _layer_norm(given: Fields) -> Any:
    return mx.fast.layer_norm(given["x"], given.get("weight"), given.get("bias"), given["eps"])


def _blocks(given: Fields) -> Fields:
    return {name: given.get(name) for name in ("scales", "biases", "group_size", "bits", "mode")}


def _dequantize(given: Fields) -> Any:
    values = mx.dequantize(given["w"], **_blocks(given))
    return values.astype(_dtype(given["dtype"])) if "dtype" in given else values


def _quantized_matmul(given: Fields) -> Any:
    return mx.quantized_matmul(
        given["x"], given["w"], transpose=given["transpose"], **_blocks(given)
    )


NODES: dict[str, Callable[[Fields], Any]] = {
    "AddIntNode": lambda given: given["a"] + given["b"],
    "ARangeNode": _arange,
    "AddNode": _two(mx.add),
    "AddmmNode": _addmm,
    "AsStridedNode": lambda given: mx.as_strided(
        given["x"], given["shape"], given["strides"], given["offset"]
    ),
    "AsTypeNode": lambda given: given["x"].astype(_dtype(given["scalar_type"])),
    "BitwiseAndNode": _two(mx.bitwise_and),
    "BroadcastToNode": _broadcast,
    "ClipNode": lambda given: mx.clip(given["x"], given.get("a_min"), given.get("a_max")),
    "ConcatenateNode": lambda given: mx.concatenate(given["tensors"], axis=given["axis"]),
    "ContiguousNode": _one(mx.contiguous),
    "Conv1DNode": _conv1d,
    "Conv2DNode": _conv2d,
    "CosNode": _one(mx.cos),
    "CumsumNode": lambda given: mx.cumsum(
        given["x"], given["axis"], reverse=given["reverse"], inclusive=given["inclusive"]
    ),
    "DequantizeNode": _dequantize,
    "DivideNode": _two(mx.divide),
    "EqualNode": _two(mx.equal),
    "ExpNode": _one(mx.exp),
    "ExpandDimsNode": lambda given: mx.expand_dims(given["x"], given["axis"]),
    "FullNode": lambda given: mx.full(given["shape"], given["v"]).astype(
        _dtype(given["scalar_type"])
    ),
    "GatherNode": _gather,
    "GeluNode": _gelu,
    "GreaterEqualNode": _two(mx.greater_equal),
    "GreaterNode": _two(mx.greater),
    "IdCopyNode": lambda given: given["x"],
    "LayerNormNode": _layer_norm,
    "LessEqualNode": _two(mx.less_equal),
    "LessNode": _two(mx.less),
    "LogNode": _one(mx.log),
    "LogicalAndNode": _two(mx.logical_and),
    "MaxNode": _reduce(mx.max),
    "MaximumNode": _two(mx.maximum),
    "MeanNode": _reduce(mx.mean),
    "MinimumNode": _two(mx.minimum),
    "MultiplyNode": _two(mx.multiply),
    "NegNode": _one(mx.negative),
    "NotEqualNode": _two(mx.not_equal),
    "PadNode": _pad,
    "PowerNode": _two(mx.power),
    "QuantizedMatmulNode": _quantized_matmul,
    "RMSNormNode": lambda given: mx.fast.rms_norm(given["x"], given.get("weight"), given["eps"]),
    "ReshapeNode": lambda given: mx.reshape(given["x"], given["shape"]),
    "RsqrtNode": _one(mx.rsqrt),
    "SdpaNode": _sdpa,
    "SigmoidNode": _one(mx.sigmoid),
    "SiluNode": _one(nn.silu),
    "SinNode": _one(mx.sin),
    "SliceNode": _slice,
    "SoftmaxNode": lambda given: mx.softmax(given["x"], given["axis"], precise=given["precise"]),
    "SplitNode": _split,
    "SqrtNode": _one(mx.sqrt),
    "SqueezeNode": _squeeze,
    "SubtractNode": _two(mx.subtract),
    "SumNode": _reduce(mx.sum),
    "StackNode": lambda given: mx.stack(given["tensors"], axis=given["axis"]),
    "SymSizeNode": lambda given: given["a"].shape[given["dim"]],
    "TakeNode": _take,
    "TanhNode": _one(mx.tanh),
    "TransposeNode": lambda given: mx.transpose(given["x"], given["perm"]),
    "WhereNode": lambda given: mx.where(given["condition"], given["x"], given["y"]),
}
