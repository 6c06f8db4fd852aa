"""Lowered programs, and the whole ones that are kept from one lowering to the next.

Taking a program from the cache imports torch and nothing of ExecuTorch.
"""

from cede.programs.again import lower
from cede.programs.lowered import Lowered

__all__ = ["Lowered", "lower"]
