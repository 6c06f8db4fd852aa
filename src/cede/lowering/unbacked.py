"""Sizes that depend on data, in the shape environment that all conversions of a program share."""

from __future__ import annotations

from typing import TYPE_CHECKING

from torch._guards import detect_fake_mode

if TYPE_CHECKING:
    from torch.export import ExportedProgram


def forget_pending(program: ExportedProgram) -> None:
    """Forget fresh symbols that an earlier conversion left, over which the next one would stumble.

    Torch keeps symbols that an op made until a value that is returned binds them
    (`ShapeEnv.pending_fresh_unbacked_symbols`, 2.13), and raises at the next op where one is left.
    A decomposition that reads a number of a tensor makes some that nothing binds; those of a
    conversion that failed stay, too.
    """
    mode = detect_fake_mode([node.meta.get("val") for node in program.graph.nodes])
    environment = mode.shape_env if mode is not None else None
    if environment is not None and environment.pending_fresh_unbacked_symbols:
        environment.pending_fresh_unbacked_symbols = []
