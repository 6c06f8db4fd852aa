"""Quantizing a model in its source, for the CPU: linear and embedding modules are rewritten.

scheme (what a mode means) -> layers (which modules, in which groups) -> apply -> rows
"""

from cede.quant.source.apply import quantize_model
from cede.quant.source.compare import compared, compared_programs
from cede.quant.source.rows import QuantizationReport, QuantizedRow
from cede.quant.source.scheme import MODES, Embedding, Scheme, read_embedding, read_mode

__all__ = [
    "MODES",
    "Embedding",
    "QuantizationReport",
    "QuantizedRow",
    "Scheme",
    "compared",
    "compared_programs",
    "quantize_model",
    "read_embedding",
    "read_mode",
]
