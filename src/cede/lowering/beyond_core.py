"""Operators beyond Core ATen, which ExecuTorch's verifier would stop at, one at a time.

They are offered to backends as all others are. Those that are left need an out variant, which
`preflight.py` looks for, and a kernel, which the runtime may lack: both are told of all at once.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeVar

import torch
from executorch.exir.dialects.edge._ops import EdgeOpOverload

from cede.lowering.layouts import LayoutsMet
from cede.lowering.sizes import compile_config

if TYPE_CHECKING:
    from collections.abc import Callable

    from executorch.exir import EdgeCompileConfig
    from torch.export import ExportedProgram

T = TypeVar("T")


class BeyondCore:
    """Equals every ATen operator that is not in Core ATen.

    The verifier asks whether an operator is in its list of exceptions
    (`exir/verification/verifier.py`, 1.5.1).
    """

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, torch._ops.OpOverload) or isinstance(other, EdgeOpOverload):
            return self is other
        core = torch.Tag.core in other.tags or torch.Tag.view_copy in other.tags
        return other.namespace == "aten" and not core

    def __hash__(self) -> int:
        return hash(BeyondCore)


def let_through(program: ExportedProgram, convert: Callable[[EdgeCompileConfig, bool], T]) -> T:
    """Convert a program whose operators beyond Core ATen the verifier lets through.

    Args:
        program: from `torch.export.export`.
        convert: converts it; what it raises is raised, but for `LayoutsMet`, after which it is
            called again. Its second argument is whether inputs are copied to the contiguous order.
    """
    try:
        return convert(_settings(program), False)
    except LayoutsMet:
        return convert(_settings(program), True)


def _settings(program: ExportedProgram) -> EdgeCompileConfig:
    settings = compile_config(program)
    settings._core_aten_ops_exception_list = [BeyondCore()]
    return settings
