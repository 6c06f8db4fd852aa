"""Operators beyond Core ATen, which ExecuTorch's verifier would stop at, one at a time.

They are offered to backends as all others are. Those that are left need an out variant, which
`preflight.py` looks for, and a kernel, which the runtime may lack.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, TypeVar

import torch

from cede.lowering.layouts import LayoutsMet
from cede.lowering.sizes import compile_config

if TYPE_CHECKING:
    from collections.abc import Callable

    from executorch.exir import EdgeCompileConfig
    from torch.export import ExportedProgram

T = TypeVar("T")

_NAMED = re.compile(r"Operator torch\._ops\.aten\.(\w+)\.(\w+) is not in Core ATen opset")
"""What the verifier says (`exir/verification/verifier.py`, 1.5.1)."""


def let_through(program: ExportedProgram, convert: Callable[[EdgeCompileConfig, bool], T]) -> T:
    """Convert a program, again with each operator that the verifier stops at let through.

    Args:
        program: from `torch.export.export`.
        convert: converts it; what it raises is raised, but for such a stop and `LayoutsMet`. Its
            second argument is whether inputs are copied to the contiguous order.
    """
    allowed: list[torch._ops.OpOverload] = []
    plain = False
    while True:
        settings = compile_config(program)
        settings._core_aten_ops_exception_list = list(allowed)
        try:
            return convert(settings, plain)
        except LayoutsMet:
            plain = True
        except Exception as error:
            found = _NAMED.search(str(error))
            if found is None:
                raise
            overload = getattr(getattr(torch.ops.aten, found[1]), found[2])
            if overload in allowed:
                raise
            allowed.append(overload)
