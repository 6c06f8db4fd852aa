"""Weights in GGUF's K-quants, computed by MLX without being decoded.

ExecuTorch's MLX compiler repacks them into MLX's own blocks, or with ET_MLX_EMIT_DIRECT_GGUF=1
reads GGUF's bytes in Metal kernels. It looks for them behind an operator of its own; here its
handlers are told of `cede::qmatmul` and `cede::qembedding`, which mean the same.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from cede.errors import PluginError

if TYPE_CHECKING:
    from torch.fx import Node

ENCODINGS = ("q4_k", "q5_k", "q6_k")
_INSIDE = "executorch.backends.mlx.custom_kernel_ops.gguf"


def register() -> None:
    """Tell MLX's compiler of the operators, once; it has to be imported before.

    Raises:
        PluginError: this version of executorch has no such kernels.
    """
    import torch
    from executorch.backends.mlx.builder.op_registry import REGISTRY

    import cede.quant.qmatmul  # noqa: F401  registers the operators

    for operator, handler in (
        (torch.ops.cede.qmatmul.default, _linear),
        (torch.ops.cede.qembedding.default, _embedding),
    ):
        if operator not in REGISTRY.registered_ops():
            REGISTRY.register(target=[operator])(handler)
            REGISTRY.register_support_check(target=[operator])(_supported)


def _supported(builder: Any, node: Node) -> bool:
    """From the node alone, as MLX asks several times: the encoding, and that it is a constant."""
    weight = _given(node)["weight"]
    from_caller = weight.name in builder.ep.graph_signature.user_inputs
    constant = weight.op == "placeholder" and not from_caller
    return constant and _given(node)["encoding"] in ENCODINGS


def _linear(builder: Any, node: Node) -> Any:
    given = _given(node)
    emit = _kernels(given["encoding"], "linear").emit_linear
    return emit(builder, node, given["x"], given["weight"], given.get("bias"))


def _embedding(builder: Any, node: Node) -> Any:
    given = _given(node)
    emit = _kernels(given["encoding"], "embedding").emit_embedding
    return emit(builder, node, given["weight"], given["indices"], node.meta["val"].dtype)


def _given(node: Node) -> dict[str, Any]:
    from cede.facts.arguments import named_arguments  # has torch, which loading a plugin has not

    return named_arguments(node)


def _kernels(encoding: str, kind: str) -> Any:
    name = f"{_INSIDE}.{encoding.replace('_', '')}.{kind}"
    try:
        return import_module(name)
    except ImportError as error:
        raise PluginError(
            f"metal: MLX in this build of executorch has no {encoding} ({error}): install"
            " executorch 1.5 or newer, or take another encoding"
        ) from error
