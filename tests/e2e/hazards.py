"""A plugin whose backend claims four ops and fails at each of them in a way of its own."""

from __future__ import annotations

import os
import signal
import time
from typing import TYPE_CHECKING, Any, final

from cede.hookspec import hookimpl
from cede.types import Backend, Claim, Code, Keep, Program, Reason, Refusal

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

WRONG, BROKEN, DEADLY, HANGING, FATAL = (
    f"aten.{name}.default" for name in ("cos", "tan", "sinh", "cosh", "erf")
)
"""Runs wrong, can't be compiled, kills and hangs the compiler; the last kills the partitioner."""


class Loaded:
    def run(self, inputs: Sequence[Any], method: str = "forward") -> list[Any]:
        return [value.cos() + 0.5 for value in inputs]


class Hazardous:
    name = backend = "hazard"

    def keeps(self, program: Program) -> Keep:
        return Keep()

    def claim(self, program: Program) -> Iterator[Claim | Refusal]:
        for op in program.graph.ops:
            if op.target == FATAL:
                os.kill(os.getpid(), signal.SIGKILL)
            if op.target in (WRONG, BROKEN, DEADLY, HANGING):
                yield Claim(partitioner="hazard", backend="hazard", ops=frozenset({op.id}))
            else:
                reason = Reason(code=Code.UNKNOWN_OP, detail=f"no {op.target}")
                yield Refusal(partitioner="hazard", op=op.id, reason=reason)


def register() -> None:
    from executorch.exir.backend.backend_details import BackendDetails, PreprocessResult

    @final
    class HazardBackend(BackendDetails):
        @staticmethod
        def preprocess(edge_program: Any, compile_specs: Any) -> PreprocessResult:
            targets = {str(node.target) for node in edge_program.graph.nodes}
            if any(DEADLY in target for target in targets):
                signal.raise_signal(signal.SIGSEGV)
            if any(HANGING in target for target in targets):
                time.sleep(600)
            if any(BROKEN in target for target in targets):
                raise RuntimeError("no tangent here")
            return PreprocessResult(processed_bytes=b"cos")

    register.held = HazardBackend  # type: ignore[attr-defined]


@hookimpl
def cede_partitioners() -> Iterator[Hazardous]:
    yield Hazardous()


@hookimpl
def cede_backends() -> Iterator[Backend]:
    yield Backend(
        name="hazard",
        delegate_id="HazardBackend",
        register=register,
        load=lambda data: Loaded(),
    )
