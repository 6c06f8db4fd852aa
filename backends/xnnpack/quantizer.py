"""XNNPACK's quantizer: int8, static or dynamic."""

from __future__ import annotations

from typing import Any

from cede.types import Quantizer


def _make(mode: str, per_channel: bool) -> Any:
    from executorch.backends.xnnpack.quantizer.xnnpack_quantizer import (
        XNNPACKQuantizer,
        get_symmetric_quantization_config,
    )

    scheme = get_symmetric_quantization_config(
        is_per_channel=per_channel, is_dynamic=mode == "dynamic"
    )
    return XNNPACKQuantizer().set_global(scheme)


def _finish(model: Any) -> None:
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
        rows = getattr(model, str(weight.target)).shape[0]
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
    model.recompile()


def _dynamic_product(node: Any, weight: Any) -> bool:
    if not str(node.target).startswith(("aten.linear.", "aten.conv1d.", "aten.conv2d.")):
        return False
    dynamic = "quantized_decomposed.dequantize_per_tensor.tensor"
    return node.args[1] is weight and str(node.args[0].target) == dynamic


QUANTIZER = Quantizer(
    name="xnnpack", backend="xnnpack", modes=("static", "dynamic"), make=_make, finish=_finish
)
