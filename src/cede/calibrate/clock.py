"""Small programs, lowered and run until their time is known."""

from __future__ import annotations

import time
from dataclasses import replace
from typing import TYPE_CHECKING

import torch
from executorch.exir import to_edge_transform_and_lower

from cede.calibrate.cases import BETWEEN
from cede.calibrate.fit import Sample
from cede.config import PolicyConfig, SelectorConfig, check_options
from cede.costs import moved_bytes
from cede.errors import CedeError, LoweringError
from cede.facts import read_graph
from cede.lowering import lower_program
from cede.running.pte import read
from cede.running.runtime import RuntimeProgram

if TYPE_CHECKING:
    from collections.abc import Sequence

    from cede.calibrate.cases import Case
    from cede.config import Config
    from cede.host import Host
    from cede.types import OpGraph

WARM, LEAST, MOST = 3, 20, 500
"""Calls before measuring, and how many are measured."""

ENOUGH = 0.2
"""Seconds of measured calls after which the least number of them will do."""


class Clock:
    """Seconds of a call of small programs on one target.

    Args:
        host: brings the backend.
        config: its plugins and options.
        backend: "" for the kernels that run where no delegate does.
    """

    def __init__(self, host: Host, config: Config, backend: str) -> None:
        self._host, self._backend = host, backend
        apart = PolicyConfig(exclude=[SelectorConfig(op=BETWEEN)])
        self._config = replace(
            config, backends=[backend], partitioners=[], limits={}, settle="priority", costs="",
            policy=apart,
        )  # fmt: skip

    def sample(self, case: Case) -> Sample:
        """A program of one op. Raises LoweringError where the target can't have it."""
        graph, program = self._lowered(case)
        main = max(
            (op for op in graph.ops if not op.bookkeeping),
            key=lambda op: (op.flops, moved_bytes(op, graph)),
        )
        return Sample(
            kind=main.kind,
            dtype=main.outputs[0].dtype,
            flops=main.flops,
            moved=moved_bytes(main, graph),
            crossed=moved_bytes(main, graph, constants=False),
            seconds=_timed(program, case.args),
        )

    def seconds(self, case: Case, delegates: int = 1) -> float:
        """Seconds of a call.

        Raises:
            LoweringError: the target can't have it, or in another number of delegates.
        """
        _, program = self._lowered(case, delegates)
        return _timed(program, case.args)

    def _lowered(self, case: Case, delegates: int = 1) -> tuple[OpGraph, bytes]:
        with torch.no_grad():
            exported = torch.export.export(case.module, case.args)
        if not self._backend:
            edge = to_edge_transform_and_lower(exported)
            return read_graph(edge.exported_program()), bytes(edge.to_executorch().buffer)
        options = check_options(self._config, self._host.backends, self._host.backend)
        lowered = lower_program(exported, self._host, self._config, options)
        report = lowered.report()
        left = [row for row in report.left if not row.target.startswith(BETWEEN)]
        if left:
            raise LoweringError(f"{left[0].op}: {left[0].reason}")
        if report.totals.delegates != delegates:
            raise LoweringError(f"it makes {report.totals.delegates} delegates, not {delegates}")
        return lowered.graph, lowered.buffer


def refused(error: Exception) -> str:
    """Why something can't be measured, in one line."""
    text = str(error) if isinstance(error, CedeError) else f"{type(error).__name__}: {error}"
    return text.splitlines()[0] if text else type(error).__name__


def _timed(program: bytes, args: Sequence[torch.Tensor]) -> float:
    """Seconds of the fastest call, without what cede does around the runtime.

    On an idle machine that is near the median. On a busy one calls wait for a core, for as long as
    many of them take, and the fastest one is what is left of the truth.
    """
    method = RuntimeProgram(read(program, "calibrate")).load("forward")
    inputs = list(args)
    for _ in range(WARM):
        method.execute(inputs)
    taken: list[float] = []
    begin = time.perf_counter()
    while len(taken) < LEAST or (len(taken) < MOST and time.perf_counter() - begin < ENOUGH):
        start = time.perf_counter()
        method.execute(inputs)
        taken.append(time.perf_counter() - start)
    return min(taken)
