"""What an export script that emits by ExecuTorch's own steps can have besides."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from executorch.exir import ExecutorchProgramManager


def store_once(program: ExecutorchProgramManager) -> int:
    """Store constants once that a delegate and an op outside of delegates both read.

        program = edge.to_executorch()
        cede.store_once(program)
        program.save("model.pte")

    `cede.lower` does so by itself. Call it before the bytes of the program are read.

    Args:
        program: what `to_executorch()` gave.

    Returns:
        How many bytes of it are gone; 0 with versions of ExecuTorch that cede does not know.
    """
    from cede.lowering.inside_executorch import once, unknown_version

    return 0 if unknown_version() else once.store_once(program)
