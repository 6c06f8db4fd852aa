"""Each delegate alone, then the whole: see `cede.verifying`."""

from __future__ import annotations

import io
import tempfile
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch

from cede.checking import Difference, Walker, compared, flat, written_inputs
from cede.errors import CedeError, ConfigError, LoweringError
from cede.running import load
from cede.support.worker import Crashed, JobError, TimedOut, Worker
from cede.types import inputs_of
from cede.verifying.cases import CALLS, VALUES, Case, cases_for
from cede.verifying.records import FAILED, ODD, RIGHT, WRONG, Part, Verification

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from torch.export import ExportedProgram

    from cede.checking import Call
    from cede.config import CheckConfig, Config
    from cede.lowering import Lowered
    from cede.running.pte import Pte
    from cede.types import Backend, LoadedProgram


WHOLE, FROM_FILE = "whole", "whole, from a file"


def verify(
    lowered: Lowered,
    calls: Sequence[Call],
    config: Config | Path | str | None = None,
    *,
    seconds: float,
) -> Verification:
    """As `cede.verify`."""
    loaded, backends = _loaded(calls, config)
    cases, notes = cases_for(lowered.source, [inputs_of(call) for call in calls])
    parts = [part for case in cases for part in _alone(lowered, case, backends, loaded.check)]
    order = {given.id: i for i, given in enumerate(lowered.plan.delegations)}
    parts.sort(key=lambda part: order.get(part.what, len(order)))
    whole = _Whole(
        source=lowered.source, written=tuple(written_inputs(lowered.edge)),
        method=lowered.plan.method, config=loaded, backends=backends,
    )  # fmt: skip
    pte = lowered.pte
    parts += [whole.run(case, pte) for case in cases]
    with tempfile.TemporaryDirectory(prefix="cede-") as folder:
        path = Path(folder) / "program.pte"
        lowered.save(path)
        weights = path.with_suffix(".ptd") if pte.weights else None
        parts.append(whole.from_file(cases[0], path, weights, seconds))
    return Verification(parts=tuple(parts), notes=tuple(notes))


def verify_file(
    path: Path | str,
    program: ExportedProgram,
    calls: Sequence[Call],
    config: Config | Path | str | None = None,
    *,
    seconds: float,
    weights: Path | str | None = None,
) -> Verification:
    """As `cede.verifying.verify_file`."""
    from cede.running.pte import read_file

    loaded, backends = _loaded(calls, config)
    pte = read_file(path, weights)
    cases, notes = cases_for(program, [inputs_of(call) for call in calls])
    whole = _Whole(
        source=program, written=tuple(written_inputs(program.run_decompositions({}))),
        method=pte.methods[0], config=loaded, backends=backends,
    )  # fmt: skip
    parts = [whole.run(case, pte) for case in cases]
    parts.append(whole.from_file(cases[0], path, weights, seconds))
    return Verification(parts=tuple(parts), notes=tuple(notes))


def _loaded(
    calls: Sequence[Call], config: Config | Path | str | None
) -> tuple[Config, Mapping[str, Backend]]:
    from cede.config import load_config
    from cede.host import Host

    if not calls:
        raise ConfigError("verify: give the inputs of at least one call")
    loaded = load_config(config)
    return loaded, Host.load(loaded).backends


def _alone(
    lowered: Lowered, case: Case, backends: Mapping[str, Backend], tolerance: CheckConfig
) -> Iterator[Part]:
    """Each delegate over the calls of a case, on eager's values."""
    walker = Walker(lowered.edge, lowered.plan, backends, tolerance)
    found: dict[str, Difference] = {}
    failed = ""
    for call in case.calls:
        try:
            seen = walker.call(flat(call, lowered.source))
        except Exception as error:  # whatever eager or a runtime says to such inputs
            failed = _said(error)
            break
        for each in seen:
            before = found.get(each.given.id, Difference())
            found[each.given.id] = before + each.difference
    for given in lowered.plan.delegations:
        where = lowered.graph.op(given.ops[0]).where
        seen_so_far = found.get(given.id)
        if failed and (seen_so_far is None or not seen_so_far.fault):
            part = Part(what=given.id, case=case.name, outcome=FAILED, detail=failed)
        elif seen_so_far is not None:
            part = _part(given.id, case, seen_so_far)
        else:
            continue  # in a branch that was not taken
        yield replace(part, backend=given.backend, where=where)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Whole:
    """A program to run as a whole.

    Attributes:
        source: that it was made from.
        written: places of the inputs that it writes.
        method: to call.
        config: plugins and tolerances.
        backends: by name.
    """

    source: ExportedProgram
    written: tuple[int, ...]
    method: str
    config: Config
    backends: Mapping[str, Backend]

    def compared(self, case: Case, program: LoadedProgram) -> Difference:
        """How far all calls of a case are from eager."""
        found = compared(
            self.source, case.calls, program, self.config.check, self.written, self.method
        )
        return sum(found, Difference())

    def run(self, case: Case, program: Pte) -> Part:
        """One case in this process, on a program that nobody has called yet."""
        try:
            found = self.compared(case, load(program, self.backends))
        except CedeError as error:
            if case.kind == CALLS and "eager can't take" in str(error):
                raise
            return Part(what=WHOLE, case=case.name, outcome=FAILED, detail=_said(error))
        return _part(WHOLE, case, found)

    def from_file(
        self, case: Case, path: Path | str, weights: Path | str | None, seconds: float
    ) -> Part:
        """One case in a process that loads the program from a file."""
        inputs = _packed([flat(call, self.source) for call in case.calls])
        outside = None if weights is None else str(weights)
        given = (str(path), outside, inputs, self.method, self.config)
        try:
            with Worker() as worker:
                outputs = worker.ask(run_file, *given, seconds=seconds)
        except (JobError, Crashed, TimedOut) as error:
            died = "the process died: " if isinstance(error, Crashed) else ""
            detail = f"{died}{error}"
            return Part(what=FROM_FILE, case=case.name, outcome=FAILED, detail=detail)
        return _part(FROM_FILE, case, self.compared(case, _Given(_unpacked(outputs))))


class _Given:
    """Outputs that were computed elsewhere, as a program that gives them."""

    def __init__(self, outputs: list[list[Any]]) -> None:
        self._left = iter(outputs)

    @property
    def methods(self) -> tuple[str, ...]:
        return ()

    def run(self, inputs: Sequence[Any], method: str = "forward") -> list[Any]:
        return next(self._left)


def run_file(path: str, weights: str | None, calls: bytes, method: str, config: Config) -> bytes:
    """In a process of its own: the outputs of each call of a program in a file.

    Args:
        path: of the program.
        weights: of its data file, if it has one.
        calls: flat inputs of each call, by `torch.save`: processes share tensors otherwise, which
            a process that dies would break.
        method: to call.
        config: which plugins are loaded.

    Returns:
        Flat outputs of each call, by `torch.save`.
    """
    from cede.host import Host
    from cede.running import load_file

    program = load_file(path, Host.load(config).backends, weights)
    outputs = []
    for given in _unpacked(calls):
        got = program.run(given, method)
        outputs.append([v.clone() if isinstance(v, torch.Tensor) else v for v in got])
    return _packed(outputs)


def _packed(values: Any) -> bytes:
    file = io.BytesIO()
    torch.save(values, file)
    return file.getvalue()


def _unpacked(data: bytes) -> Any:
    return torch.load(io.BytesIO(data), weights_only=True)


def _part(what: str, case: Case, found: Difference) -> Part:
    outcome = RIGHT
    if found.fault:
        outcome = ODD if case.kind == VALUES else WRONG
    return Part(
        what=what, case=case.name, odd=case.kind == VALUES, outcome=outcome, difference=found,
        detail=found.fault or found.rounded,
    )  # fmt: skip


def _said(error: Exception) -> str:
    kind = "" if isinstance(error, LoweringError) else f"{type(error).__name__}: "
    return kind + " ".join(str(error).split())[:300]
