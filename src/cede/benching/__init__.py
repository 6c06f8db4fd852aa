"""Measuring a lowered program: the whole, each delegate, and each op that was left.

match (instructions to delegations and ops) -> timed
"""

from __future__ import annotations

import statistics
import time
from typing import TYPE_CHECKING, Any

from cede.benching.match import instructions
from cede.costs import Timing
from cede.errors import ConfigError
from cede.running import EXECUTORCH, loaded_in

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from cede.lowering import Lowered
    from cede.running.trace import Traced
    from cede.types import Backend, LoadedProgram

__all__ = ["timed"]

WARM = 5
"""Calls before those that count."""


def timed(
    lowered: Lowered, inputs: Sequence[Any], backends: Mapping[str, Backend], calls: int = 50
) -> Timing:
    """Call a program on the same inputs again and again.

    Args:
        lowered: the program.
        inputs: flat inputs.
        backends: by name, for a program that ExecuTorch's own runtime can't run.
        calls: how many count, for the whole and again for the parts.

    Raises:
        ConfigError: no call counts.
        LoweringError: the program can't be run here.
    """
    if calls < 1:
        raise ConfigError(f"calls: is {calls}, must not be below 1")
    pte = lowered.pte
    method = lowered.plan.method
    runtime, program = loaded_in(pte, backends, method)
    seconds = _whole(program, inputs, method, calls)
    if runtime != EXECUTORCH:
        return Timing(seconds=seconds, calls=calls, runtime=runtime)
    from cede.running.trace import trace

    events = trace(pte, inputs, method, calls=calls, warm=WARM)
    return _placed(events, *instructions(lowered, pte), seconds, calls)


def _placed(
    events: Iterable[Traced],
    delegates: Mapping[int, str],
    ops: Mapping[int, str],
    seconds: float,
    calls: int,
) -> Timing:
    """The medians of what was traced, with the delegation or op of each instruction."""
    took: dict[int, float] = {}
    kernels: dict[str, list[tuple[str, float]]] = {}
    for event in events:
        if not event.seconds:
            continue
        median = statistics.median(event.seconds)
        if not event.kernel:
            took[event.instruction] = took.get(event.instruction, 0.0) + median
        elif event.instruction in delegates:
            kernels.setdefault(delegates[event.instruction], []).append((event.kernel, median))
    return Timing(
        seconds=seconds,
        calls=calls,
        delegates={id: took[at] for at, id in delegates.items() if at in took},
        ops={id: took[at] for at, id in ops.items() if at in took},
        kernels={id: tuple(found) for id, found in kernels.items()},
    )


def _whole(program: LoadedProgram, inputs: Sequence[Any], method: str, calls: int) -> float:
    for _ in range(WARM):
        program.run(inputs, method)
    taken = []
    for _ in range(calls):
        begin = time.perf_counter()
        program.run(inputs, method)
        taken.append(time.perf_counter() - begin)
    return statistics.median(taken)
