"""Quantizing a model in its source, for the CPU: linear and embedding modules are rewritten.

scheme (what a mode means) -> layers (which modules, in which groups) -> apply -> rows
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from cede.lazy import lazily

if TYPE_CHECKING:
    from cede.quant.source.apply import quantize_model
    from cede.quant.source.compare import compared, compared_programs
    from cede.quant.source.ranked import RankedRow
    from cede.quant.source.rows import QuantizationReport, QuantizedRow
    from cede.quant.source.scheme import MODES, Embedding, Scheme, read_embedding, read_mode
    from cede.quant.source.sensitivity import rank_layers
    from cede.quant.source.suggest import CANDIDATES, suggest_quantization
    from cede.quant.source.suggestion import SuggestedRow, Suggestion, read_error

_HOME = {
    "cede.quant.source.apply": ("quantize_model",),
    "cede.quant.source.compare": (
        "compared",
        "compared_programs",
    ),
    "cede.quant.source.ranked": ("RankedRow",),
    "cede.quant.source.rows": (
        "QuantizationReport",
        "QuantizedRow",
    ),
    "cede.quant.source.scheme": (
        "MODES",
        "Embedding",
        "Scheme",
        "read_embedding",
        "read_mode",
    ),
    "cede.quant.source.sensitivity": ("rank_layers",),
    "cede.quant.source.suggest": (
        "CANDIDATES",
        "suggest_quantization",
    ),
    "cede.quant.source.suggestion": (
        "SuggestedRow",
        "Suggestion",
        "read_error",
    ),
}

__all__ = [
    "CANDIDATES",
    "MODES",
    "Embedding",
    "QuantizationReport",
    "QuantizedRow",
    "RankedRow",
    "Scheme",
    "SuggestedRow",
    "Suggestion",
    "compared",
    "compared_programs",
    "quantize_model",
    "rank_layers",
    "read_embedding",
    "read_error",
    "read_mode",
    "suggest_quantization",
]


__getattr__ = lazily(__name__, _HOME)
