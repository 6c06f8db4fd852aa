"""Probing every op on every backend: in groups, and alone where a group fails."""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from fnmatch import fnmatchcase
from importlib.metadata import version
from typing import TYPE_CHECKING, Any

from cede.errors import ConfigError
from cede.nearest import suggestion
from cede.support import probe
from cede.support.joint import REJECTED, samples
from cede.support.records import DYNAMIC, LEVELS, Answer, Cell, Outcome, Support
from cede.support.worker import Crashed, JobError, TimedOut, Worker

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from cede.config import Config
    from cede.host import Host

    Step = Callable[[str], AbstractContextManager[None]]

TOGETHER = 16
"""Samples in one program; more are slower where one fails, fewer where none does."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Wanted:
    """What to probe.

    Attributes:
        backends: their names.
        dtypes: as torch names them.
        shapes: "static", "dynamic" or both.
        ops: names of samples.
        level: "claim", "lower" or "run"; each backend goes as far as it can here.
        seconds: how long one op may take in one step.
    """

    backends: tuple[str, ...]
    dtypes: tuple[str, ...]
    shapes: tuple[str, ...]
    ops: tuple[str, ...]
    level: str = "run"
    seconds: float = 120.0

    @property
    def steps(self) -> int:
        """How many steps `support` takes."""
        programs = len(self.dtypes) * len(self.shapes) * -(-len(self.ops) // TOGETHER)
        return programs * len(self.backends)


def matching(patterns: Sequence[str]) -> tuple[str, ...]:
    """Names of the samples that match any pattern; "*" stands for any part.

    A pattern is held against "aten.add.Tensor", "add.Tensor", "aten.add" and "add".

    Raises:
        ConfigError: a pattern that matches nothing.
    """
    names = list(samples())
    found = set()
    for pattern in patterns:
        hits = {name for name in names if _matches(name, pattern)}
        if not hits:
            words = [word for name in names for word in (name, *name.split("."))]
            raise ConfigError(f"no op matches {pattern!r}; {suggestion(pattern, words)}")
        found |= hits
    return tuple(name for name in names if name in found) if patterns else tuple(names)


def _matches(name: str, pattern: str) -> bool:
    forms = (name, name.removeprefix("aten."), name.rpartition(".")[0], *name.split(".")[1:2])
    return any(fnmatchcase(form, pattern) for form in forms if form)


def support(
    host: Host, config: Config, wanted: Wanted, step: Step = lambda _: nullcontext()
) -> Support:
    """Probe.

    Args:
        host: brings the backends.
        config: its plugins, options, tolerances and `seconds`; each backend is probed alone, with
            no limits and no policy.
        wanted: what to probe.
        step: entered around each step, with its name.
    """
    levels, why = _levels(host, wanted)
    cells = []
    with Worker() as worker:
        for dtype in wanted.dtypes:
            for shapes in wanted.shapes:
                for start in range(0, len(wanted.ops), TOGETHER):
                    names = wanted.ops[start : start + TOGETHER]
                    for backend in wanted.backends:
                        with step(f"{backend} {dtype} {shapes}"):
                            if backend in levels:
                                one = _Probing(worker, config, wanted, backend, dtype, shapes)
                                cells += one.cells(names, levels[backend])
    order = {op: i for i, op in enumerate(wanted.ops)}
    places = {backend: i for i, backend in enumerate(wanted.backends)}
    cells.sort(key=lambda cell: (order[cell.op], places[cell.backend]))
    return Support(
        versions={name: version(name) for name in ("torch", "executorch")},
        levels=levels,
        unavailable=why,
        cells=tuple(cells),
    )


def _levels(host: Host, wanted: Wanted) -> tuple[dict[str, str], dict[str, str]]:
    """How far each backend can be probed, and why no further."""
    found, whys = {}, {}
    for name in wanted.backends:
        can = host.availability(name)
        for level in LEVELS[: LEVELS.index(wanted.level) + 1]:
            why = getattr(can, level)
            if why is not None:
                whys[name] = f"can't {level} here: {why}"
                break
            found[name] = level
    return found, whys


@dataclass(frozen=True, slots=True)
class _Probing:
    """One backend, dtype and kind of shapes."""

    worker: Worker
    config: Config
    wanted: Wanted
    backend: str
    dtype: str
    shapes: str

    def cells(self, names: tuple[str, ...], level: str) -> list[Cell]:
        judged = tuple(name for name in names if not samples()[name].why)
        answered = dict(self._answers(judged))
        taken = tuple(n for n in judged if answered[n][0] in (Answer.CLAIMED, Answer.PARTLY))
        ended: dict[str, Any] = {}
        if level != "claim":
            ended = dict(self._outcomes(taken, level == "run"))
        found = []
        for name in names:
            told = answered.get(name) or (Answer.NOT_PROBED, "", samples()[name].why)
            outcome, detail = ended.get(name, (Outcome.NONE, ""))
            cell = Cell(
                op=name, backend=self.backend, dtype=self.dtype, shapes=self.shapes, answer=told[0],
                code=told[1], reason=told[2], outcome=outcome, detail=detail,
            )  # fmt: skip
            found.append(cell)
        return found

    def _ask(self, job: Any, names: tuple[str, ...], *more: Any) -> Any:
        return self.worker.ask(
            job, self.config, self.backend, names, self.dtype, self.shapes == DYNAMIC, *more,
            seconds=self.wanted.seconds * (1 + len(names) / 4),
        )  # fmt: skip

    def _answers(self, names: tuple[str, ...]) -> Iterator[tuple[str, probe.Answered]]:
        if not names:
            return
        try:
            yield from self._ask(probe.answers, names).items()
        except (JobError, Crashed, TimedOut) as error:
            if len(names) > 1:
                for half in _halves(names):
                    yield from self._answers(half)
            else:
                yield names[0], _failed(error)

    def _outcomes(self, names: tuple[str, ...], run: bool) -> Iterator[tuple[str, probe.Ended]]:
        if not names:
            return
        try:
            found = self._ask(probe.outcomes, names, run)
        except (JobError, Crashed, TimedOut) as error:
            if len(names) > 1:
                for half in _halves(names):
                    yield from self._outcomes(half, run)
            else:
                yield names[0], _ended(error)
            return
        for name, outcome in found.items():
            if outcome is None:
                yield from self._outcomes((name,), run)
            else:
                yield name, outcome


def _halves(names: tuple[str, ...]) -> tuple[tuple[str, ...], tuple[str, ...]]:
    middle = len(names) // 2
    return names[:middle], names[middle:]


def _failed(error: JobError | Crashed | TimedOut) -> probe.Answered:
    text = str(error)
    if text.startswith(REJECTED):
        return Answer.NOT_IN_TORCH, "", text
    kind = {Crashed: "the process died: ", TimedOut: ""}.get(type(error), "")
    return Answer.FAILED, "", f"{kind}{text}"


def _ended(error: JobError | Crashed | TimedOut) -> probe.Ended:
    kinds = {Crashed: Outcome.CRASHED, TimedOut: Outcome.TIMED_OUT}
    return kinds.get(type(error), Outcome.NOT_LOWERED), str(error)


__all__ = ["Wanted", "matching", "support"]
