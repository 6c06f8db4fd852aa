"""XNNPACK's quantizers: int8, static or dynamic, and weights of 4 bits, dynamic."""

from __future__ import annotations

import operator
from typing import Any

from cede.backends.xnnpack.weights import PER_CHANNEL
from cede.types import Quantizer

_PRODUCTS = ("aten.linear.", "aten.conv1d.", "aten.conv2d.")
_PER_TENSOR = "quantized_decomposed.dequantize_per_tensor.default"


def _make(mode: str, per_channel: bool) -> Any:
    return _symmetric(per_channel, dynamic=mode == "dynamic")


def _make_four_bits(mode: str, per_channel: bool) -> Any:
    return _symmetric(per_channel, dynamic=True, weight_qmin=-8, weight_qmax=7)


def _symmetric(per_channel: bool, *, dynamic: bool, **weights: int) -> Any:
    from executorch.backends.xnnpack.quantizer.xnnpack_quantizer import (
        XNNPACKQuantizer,
        get_symmetric_quantization_config,
    )

    scheme = get_symmetric_quantization_config(
        is_per_channel=per_channel, is_dynamic=dynamic, **weights
    )
    return XNNPACKQuantizer().set_global(scheme)


def _finish(model: Any) -> None:
    """Say in the graph what XNNPACK's kernels compute."""
    _scales_by_channel(model)
    _scales_by_row(model)
    _biases_in_steps(model)
    model.recompile()


def _scales_by_channel(model: Any) -> None:
    """Give weights of one scale that scale for each channel, where the activation is dynamic.

    XNNPACK multiplies dynamically quantized activations with weights of one scale a channel only.
    """
    import torch

    one = torch.ops.quantized_decomposed.dequantize_per_tensor.default
    many = torch.ops.quantized_decomposed.dequantize_per_channel.default
    for node in list(model.graph.nodes):
        if node.target is not one or node.args[0].op != "get_attr":
            continue
        if not all(_dynamic_product(user, node) for user in node.users):
            continue
        weight, scale, zero_point, low, high, dtype = node.args
        rows = _attribute(model, weight).shape[0]
        name = f"_{node.name}"
        model.register_buffer(f"{name}_scales", torch.full((rows,), scale))
        zeros = torch.full((rows,), zero_point, dtype=torch.int64)
        model.register_buffer(f"{name}_zero_points", zeros)
        with model.graph.inserting_before(node):
            given = [model.graph.get_attr(f"{name}_{end}") for end in ("scales", "zero_points")]
            made = model.graph.call_function(many, (weight, *given, 0, low, high, dtype))
        made.meta.update(node.meta)
        node.replace_all_uses_with(made)
        model.graph.erase_node(node)


def _scales_by_row(model: Any) -> None:
    """Give dynamic inputs of linear ops one scale a row.

    ExecuTorch's delegate computes them so, though its quantizer asks for one scale in all
    (`backends/xnnpack/operators/node_visitor.py`: per token in place of per tensor).
    """
    for choose in list(model.graph.nodes):
        if str(choose.target) != "quantized_decomposed.choose_qparams.tensor":
            continue
        for quantize in {user for item in choose.users for user in item.users}:
            dequantizes = list(quantize.users)
            products = [user for given in dequantizes for user in given.users]
            if str(quantize.target).startswith("quantized_decomposed.quantize_per_tensor.") and all(
                str(user.target).startswith("aten.linear.") and user.args[0] in dequantizes
                for user in products
            ):
                _by_row(model, quantize, dequantizes)
        if not any(item.users for item in choose.users):
            for item in list(choose.users):
                model.graph.erase_node(item)
            model.graph.erase_node(choose)


def _by_row(model: Any, quantize: Any, dequantizes: list[Any]) -> None:
    import torch

    ops = torch.ops.quantized_decomposed
    value, _, _, low, high, dtype = quantize.args
    with model.graph.inserting_before(quantize):
        choose = model.graph.call_function(
            ops.choose_qparams_per_token_asymmetric.default, (value, dtype)
        )
        found = [model.graph.call_function(operator.getitem, (choose, i)) for i in (0, 1)]
        made = model.graph.call_function(
            ops.quantize_per_token.default, (value, *found, low, high, dtype)
        )
    for old in dequantizes:
        with model.graph.inserting_before(old):
            back = model.graph.call_function(
                ops.dequantize_per_token.default, (made, *found, low, high, dtype, torch.float32)
            )
        for node in (choose, *found, made, back):
            node.meta.update(old.meta)
        old.replace_all_uses_with(back)
        model.graph.erase_node(old)
    model.graph.erase_node(quantize)


def _biases_in_steps(model: Any) -> None:
    """Round biases of static products to what int32 holds, in steps of input times weight scale.

    The delegate stores them so; left in float they move sums across a rounding now and then.
    """
    import torch

    for node in list(model.graph.nodes):
        if not str(node.target).startswith(_PRODUCTS) or len(node.args) < 3 or not node.args[2]:
            continue
        given, weight, bias = node.args[:3]
        scale = _weight_scale(model, weight)
        if str(given.target) != _PER_TENSOR or scale is None or bias.op != "get_attr":
            continue
        step = given.args[1] * scale
        value = _attribute(model, bias)
        name = f"_{node.name}_bias"
        model.register_buffer(name, (torch.round(value.detach() / step) * step).to(value.dtype))
        with model.graph.inserting_before(node):
            made = model.graph.get_attr(name)
        made.meta.update(bias.meta)
        node.update_arg(2, made)
        if not bias.users:
            model.graph.erase_node(bias)


def _weight_scale(model: Any, weight: Any) -> Any:
    """Float64, one number or [channels]; None where it is no quantized weight."""
    if str(weight.target) == _PER_TENSOR:
        return weight.args[1]
    if str(weight.target) != PER_CHANNEL:
        return None
    return _attribute(model, weight.args[1]).double() if weight.args[3] == 0 else None


def _attribute(model: Any, node: Any) -> Any:
    """The tensor that a `get_attr` node gives."""
    return operator.attrgetter(str(node.target))(model)


def _dynamic_product(node: Any, weight: Any) -> bool:
    if not str(node.target).startswith(_PRODUCTS):
        return False
    dynamic = "quantized_decomposed.dequantize_per_tensor.tensor"
    return node.args[1] is weight and str(node.args[0].target) == dynamic


QUANTIZER = Quantizer(
    name="xnnpack", backend="xnnpack", modes=("static", "dynamic"), make=_make, finish=_finish
)
FOUR_BITS = Quantizer(
    name="xnnpack_qc4",
    backend="xnnpack",
    modes=("dynamic",),
    make=_make_four_bits,
    granularities=(True,),
    finish=_finish,
)
