"""Seconds of each instruction of a program, by ExecuTorch's ETDump and its Inspector."""

from __future__ import annotations

import tempfile
import warnings
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from executorch.runtime import Runtime

from cede.errors import LoweringError
from cede.running.signature import fit, signature_of
from cede.running.weights import Weights

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from cede.running.pte import Pte

_WHOLE = frozenset({"DELEGATE_CALL", "OPERATOR_CALL"})
"""Events that are an instruction from its beginning to its end."""

_INSIDE = "native_call_"
"""How the event of a kernel within its instruction begins."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Traced:
    """One instruction, or one kernel within a delegate.

    Attributes:
        instruction: its place in the method's chain.
        kernel: name of the kernel, "" for the whole instruction.
        seconds: of each call in which it ran, first to last.
    """

    instruction: int
    kernel: str
    seconds: tuple[float, ...]


def trace(
    pte: Pte, inputs: Sequence[Any], method: str = "forward", *, calls: int, warm: int
) -> list[Traced]:
    """Call a method with tracing on.

    Args:
        pte: the program.
        inputs: flat inputs.
        method: what to call.
        calls: how many calls count.
        warm: how many calls before them don't.

    Raises:
        LoweringError: the program can't be loaded or run, or this runtime doesn't trace.
    """
    given = fit(signature_of(pte, method), inputs, pte.origin)
    try:
        weights = Weights(pte)
        program = Runtime.get().load_program(pte.data, enable_etdump=True, data_path=weights.path)
        loaded = program.load_method(method)
        assert loaded is not None  # noqa: S101  (a failure raises)
        for _ in range(warm + calls):
            loaded.execute(given)
    except RuntimeError as error:
        raise LoweringError(f"{pte.origin}: {method} failed: {error}") from error
    with tempfile.TemporaryDirectory(prefix="cede-trace-") as folder:
        path = Path(folder) / "trace.etdp"
        program.write_etdump_result_to_file(str(path), str(Path(folder) / "debug.bin"))
        if not path.exists() or not path.stat().st_size:
            raise LoweringError(f"{pte.origin}: this build of ExecuTorch's runtime traces nothing")
        return list(_events(path, warm))


def _events(path: Path, warm: int) -> Iterator[Traced]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # it tells of debug data that nobody asked for
        from executorch.devtools import Inspector

        blocks = Inspector(etdump_path=str(path)).event_blocks
    for block in blocks:
        if block.name != "Execute":
            continue
        for event in block.events:
            if event.perf_data is None or event._instruction_id is None:
                continue
            whole = event.name in _WHOLE
            if not whole and (not event.is_delegated_op or event.name.startswith(_INSIDE)):
                continue
            yield Traced(
                instruction=event._instruction_id,
                kernel="" if whole else event.name,
                seconds=tuple(each / 1000 for each in event.perf_data.raw[warm:]),
            )
