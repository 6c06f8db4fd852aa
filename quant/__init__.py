"""Number formats: quantizers and encodings."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from cede.quant.qmatmul_modules import QuantizedEmbedding, QuantizedLinear
    from cede.quant.qmatmul_rewrite import WeightRow, quantize_weights

if __name__ == "quant":
    raise ImportError("import cede.quant: this folder is part of the cede package")

_HOME = {
    "QuantizedEmbedding": "cede.quant.qmatmul_modules",
    "QuantizedLinear": "cede.quant.qmatmul_modules",
    "WeightRow": "cede.quant.qmatmul_rewrite",
    "quantize_weights": "cede.quant.qmatmul_rewrite",
}

__all__ = ["QuantizedEmbedding", "QuantizedLinear", "WeightRow", "quantize_weights"]


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module 'cede.quant' has no attribute {name!r}")
    return getattr(import_module(_HOME[name]), name)
