"""Running a `.pte`: in ExecuTorch's runtime, or in the runner of a backend that it lacks."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from cede.errors import LoweringError
from cede.host.ability import ability

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from cede.running.pte import Pte
    from cede.running.weights import Files
    from cede.types import Backend, LoadedProgram

__all__ = ["EXECUTORCH", "RunResult", "load", "load_file", "loaded_in", "run"]

EXECUTORCH = "executorch"
"""What `RunResult.runtime` says for ExecuTorch's own runtime."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RunResult:
    """What a call gave.

    Attributes:
        outputs: flat outputs: tensors that the caller owns, and numbers.
        load_seconds: reading and loading the program.
        run_seconds: the call itself.
        runtime: "executorch", or the name of the backend whose runner ran it.
    """

    outputs: tuple[Any, ...]
    load_seconds: float
    run_seconds: float
    runtime: str


def run(
    program: bytes | Path | str,
    inputs: Sequence[Any],
    method: str = "forward",
    *,
    backends: Mapping[str, Backend],
    weights: bytes | Files | None = None,
) -> RunResult:
    """Load a program and call it once.

    Args:
        program: a `.pte` file, or its bytes.
        inputs: flat inputs: tensors and numbers.
        method: what to call.
        backends: the backends that are known, by name.
        weights: its data file (`.ptd`), several, or the bytes of one.

    Raises:
        LoweringError: the program can't be loaded or run here, or the inputs don't fit.
    """
    begin = time.perf_counter()
    pte = _read(program, weights)
    pte.plan(method)
    runtime, loaded = loaded_in(pte, backends, method)
    middle = time.perf_counter()
    outputs = tuple(loaded.run(inputs, method))
    end = time.perf_counter()
    return RunResult(
        outputs=outputs, load_seconds=middle - begin, run_seconds=end - middle, runtime=runtime
    )


def load(
    program: bytes | Path | str | Pte,
    backends: Mapping[str, Backend],
    weights: bytes | Files | None = None,
) -> LoadedProgram:
    """Load a program to call it many times; its state lives between calls.

    Args:
        program: a `.pte` file, or its bytes, which are kept as long as the result, or what
            `cede.running.pte.read` made of them.
        backends: the backends that are known, by name.
        weights: its data file (`.ptd`), several, or the bytes of one.

    Returns:
        An object with `run(inputs, method) -> list` and `methods`.

    Raises:
        LoweringError: no program, or a delegate in it that can't be run here.
    """
    return loaded_in(_read(program, weights), backends)[1]


def load_file(
    path: Path | str, backends: Mapping[str, Backend], weights: Path | str | None = None
) -> LoadedProgram:
    """As `load`, but ExecuTorch's runtime reads the file itself, as on a device.

    It then gives memory back that it keeps for a program in memory: what reads it afterwards dies.

    Raises:
        LoweringError: as `load`.
    """
    from cede.running.pte import read_file

    return loaded_in(read_file(path, weights), backends, path=path, weights=weights)[1]


def _read(program: bytes | Path | str | Pte, weights: bytes | Files | None = None) -> Pte:
    from cede.running.pte import Pte, read
    from cede.running.weights import content, weights_in

    if isinstance(program, Pte):
        return program
    if isinstance(program, bytes | bytearray | memoryview):
        data, origin = bytes(program), "program"
    else:
        data, origin = content(program), str(program)
    if isinstance(weights, bytes):
        return read(data, origin, weights)
    return read(data, origin, *weights_in(weights)) if weights else read(data, origin)


def loaded_in(
    pte: Pte,
    backends: Mapping[str, Backend],
    method: str | None = None,
    path: Path | str | None = None,
    weights: Path | str | None = None,
) -> tuple[str, LoadedProgram]:
    """Where a program runs, and the program loaded there. Raises LoweringError as `load` does."""
    from cede.running.runtime import RuntimeProgram, registered

    ids = {delegate.id for method in pte.methods for delegate in pte.delegates(method)}
    by_id = _by_id(pte, ids, backends)
    missing = sorted(ids - registered())
    if not missing:
        program = RuntimeProgram(pte, path, weights)
        if method is not None:
            program.load(method)
        return EXECUTORCH, program
    for id in missing:
        if id in by_id and (runner := by_id[id].load) is not None:
            return by_id[id].name, runner(pte.whole)
    raise LoweringError(
        f"{pte.origin}: no runtime here for the delegate {missing[0]}"
        + (f" of backend {by_id[missing[0]].name}" if missing[0] in by_id else "")
        + f"; ExecuTorch's has {', '.join(sorted(registered()))}"
    )


def _by_id(pte: Pte, ids: set[str], backends: Mapping[str, Backend]) -> dict[str, Backend]:
    """For each delegate the first backend that can run it here."""
    found: dict[str, Backend] = {}
    whys: dict[str, str] = {}
    for backend in backends.values():
        id = backend.delegate_id
        if id not in ids or id in found:
            continue
        if (why := ability(backend).run) is None:
            found[id] = backend
        else:
            whys.setdefault(id, f"{id} of backend {backend.name} can't run here: {why}")
    for id in sorted(whys.keys() - found.keys()):
        raise LoweringError(f"{pte.origin}: the delegate {whys[id]}")
    return found
