"""Quantizing an exported program for a backend, by the backend's own quantizer (pt2e).

program (the steps) -> settings (what a config asks) -> annotate (which ops) -> calibration -> rows
"""

from cede.quant.pt2e.program import quantize_program
from cede.quant.pt2e.rows import AnnotatedRow, AnnotationReport
from cede.quant.pt2e.settings import quantize_as_configured

__all__ = ["AnnotatedRow", "AnnotationReport", "quantize_as_configured", "quantize_program"]
