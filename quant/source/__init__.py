"""Quantizing a model in its source, for the CPU: linear and embedding modules are rewritten.

scheme (what a mode means) -> layers (which modules, in which groups) -> apply -> rows
"""

from cede.quant.source.apply import quantize_model
from cede.quant.source.compare import compared, compared_programs
from cede.quant.source.ranked import RankedRow
from cede.quant.source.rows import QuantizationReport, QuantizedRow
from cede.quant.source.scheme import MODES, Embedding, Scheme, read_embedding, read_mode
from cede.quant.source.sensitivity import rank_layers
from cede.quant.source.suggest import CANDIDATES, suggest_quantization
from cede.quant.source.suggestion import SuggestedRow, Suggestion, read_error

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
