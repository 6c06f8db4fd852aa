"""Proving a lowered program right: each delegate alone, then the whole, on many kinds of inputs.

cases -> each delegate on eager's values -> the whole from its bytes -> the whole from a file
`cede.check` compares the whole on given calls and is quick; this is the deep form of it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from torch.export import ExportedProgram

    from cede.checking import Call
    from cede.config import Config
    from cede.lowering import Lowered
    from cede.verifying.culprit import Culprit
    from cede.verifying.records import Verification

__all__ = ["bisect", "verify", "verify_file"]

SECONDS = 600.0


def verify(
    lowered: Lowered,
    calls: Sequence[Call],
    config: Config | Path | str | None = None,
    *,
    seconds: float = SECONDS,
) -> Verification:
    """Compare a program with eager, each delegate alone and then the whole.

    A delegate gets the values that eager has in its place, so that one fault is not told twice.
    The whole is run from its bytes, and once more from a file in a process of its own, since
    runtimes keep the two apart in memory and may die of one of them.

    Args:
        lowered: the program.
        calls: inputs of calls in a row; one alone is called three times. The first is also
            varied: symbolic sizes at both bounds and between, zeros, large numbers, NaN and
            infinity in floating-point inputs.
        config: its `check` section has the tolerances.
        seconds: how long the process of its own may take.

    Raises:
        ConfigError: there is no call.
        LoweringError: eager can't take the inputs of the given calls.
    """
    from cede.verifying.deep import verify as verified

    return verified(lowered, calls, config, seconds=seconds)


def verify_file(
    path: Path | str,
    program: ExportedProgram,
    calls: Sequence[Call],
    config: Config | Path | str | None = None,
    *,
    seconds: float = SECONDS,
    weights: Path | str | None = None,
) -> Verification:
    """Compare a `.pte` with the exported program that it was made from, as a whole.

    Args:
        path: of the file.
        program: from `torch.export.export`.
        calls: as `verify` takes them.
        config: as `verify` takes it.
        seconds: how long the process of its own may take.
        weights: its data file (`.ptd`), if it has one.

    Raises:
        ConfigError: there is no call.
        LoweringError: no program, or eager can't take the inputs of the given calls.
    """
    from cede.verifying.deep import verify_file as verified

    return verified(path, program, calls, config, seconds=seconds, weights=weights)


def bisect(
    lowered: Lowered, calls: Sequence[Call], config: Config | Path | str | None = None
) -> Culprit | None:
    """Find the delegate and op at fault.

    Args:
        lowered: the program.
        calls: inputs of calls in a row that show the fault.
        config: that it was lowered with.

    Returns:
        The culprit; None where every delegate agrees with eager on eager's values.

    Raises:
        ConfigError: there is no call.
        LoweringError: a delegate can't be run here.
    """
    from cede.verifying.culprit import bisect as bisected

    return bisected(lowered, calls, config)
