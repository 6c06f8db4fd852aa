"""The libraries that register operators, by namespace."""

from __future__ import annotations

import importlib
from importlib import metadata
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

NAMESPACES: Mapping[str, str] = {
    "quantized_decomposed": "executorch.kernels.quantized",
    "torchao": "torchao.quantization",
    "llama": "executorch.extension.llm.custom_ops.custom_ops",
    "preprocess": "executorch.extension.llm.custom_ops.custom_ops",
    "dim_order_ops": "executorch.exir.passes.dim_order_ops_registry",
    "et_copy": "executorch.exir.passes._device_copy_ops_registry",
}
"""The module whose import registers the operators of a namespace, with torch and the runtime."""

OWN: Mapping[str, str] = {"cede": "cede.quant.qmatmul"}
"""As `NAMESPACES`, of cede's own operators, which ExecuTorch knows nothing of."""

GROUP = "cede.operators"
"""Entry points that name such a module for a namespace of a distribution's own."""


def register(operators: Iterable[str]) -> None:
    """Import what registers these operators ("quantized_decomposed::add.out"), where known.

    A library that can't be imported is left to `resolve` and the runtime, which name the operator.
    """
    for namespace in {name.partition("::")[0] for name in operators}:
        for module in libraries(namespace):
            try:
                importlib.import_module(module)
            except (ImportError, OSError):
                continue


def libraries(namespace: str) -> tuple[str, ...]:
    """The modules whose import registers the operators of a namespace, where known."""
    known = NAMESPACES.get(namespace) or OWN.get(namespace)
    if known is not None:
        return (known,)
    found = metadata.entry_points(group=GROUP, name=namespace)
    return tuple(sorted({point.value for point in found}))


def advice(name: str) -> str:
    """What to do about an operator that nobody registered."""
    namespace = name.partition("::")[0]
    for module in libraries(namespace):
        try:
            importlib.import_module(module)
        except (ImportError, OSError) as error:
            return f"importing {module} should register it and fails: {error}"
        return f"importing {module} should register it and does not"
    return (
        f"import the module that registers the operators of {namespace!r} before running, or"
        f" install a distribution that names it by an entry point {namespace} of {GROUP}"
    )
