"""What each backend makes of whole models: share claimed, delegates, lowered, run, error."""

from __future__ import annotations

import csv
import io
import json
from contextlib import AbstractContextManager, nullcontext
from dataclasses import asdict, dataclass, replace
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from cede.reporting.tables import Table, as_markdown, as_text
from cede.support.records import LEVELS, Outcome
from cede.support.worker import Crashed, JobError, TimedOut, Worker

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from cede.config import Config
    from cede.host import Host
    from cede.model import Model

    Step = Callable[[str], AbstractContextManager[None]]


CANT = "can't "

ANY = "(any)"
"""Stands for every model in the row of a backend that can do nothing here."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelRow:
    """One model on one backend.

    Attributes:
        model: as it was asked for, or `ANY`.
        backend: the backend's name.
        ops: computing ops of the edge program.
        delegated: how many of them the plan gives away.
        delegates: to how many delegates.
        outcome: what became of it.
        error: largest difference to eager, None where it didn't run.
        detail: what went wrong, or why it was not taken further.
    """

    model: str
    backend: str
    ops: int = 0
    delegated: int = 0
    delegates: int = 0
    outcome: Outcome = Outcome.NONE
    error: float | None = None
    detail: str = ""


def models(
    host: Host,
    config: Config,
    specs: Sequence[str],
    backends: Sequence[str],
    level: str = "run",
    seconds: float = 600.0,
    step: Step = lambda _: nullcontext(),
) -> list[ModelRow]:
    """Try every model on every backend, each in a child process.

    Args:
        host: brings the backends.
        config: its plugins, options, limits, policy and tolerances; each backend is tried alone.
        specs: models as the command line names them.
        backends: their names.
        level: "claim", "lower" or "run"; each backend goes as far as it can here.
        seconds: how long one step of one model may take.
        step: entered around each model on each backend, with its name.
    """
    rows = []
    asked = []
    for backend in backends:
        if (why := host.availability(backend).claim) is None:
            asked.append(backend)
        else:
            row = ModelRow(model=ANY, backend=backend, detail=f"{CANT}claim here: {why}")
            rows.append(row)
    with Worker() as worker:
        for spec in specs:
            for backend in asked:
                with step(f"{spec} {backend}"):
                    rows.append(_row(worker, host, config, spec, backend, level, seconds))
    return rows


def _row(
    worker: Worker, host: Host, config: Config, spec: str, backend: str, level: str, seconds: float
) -> ModelRow:
    row = ModelRow(model=spec, backend=backend)
    alone = replace(config, backends=[backend], partitioners=[])
    can = host.availability(backend)
    jobs = {"claim": claimed, "lower": lowered, "run": checked}
    for one in LEVELS[: LEVELS.index(level) + 1]:
        if (why := getattr(can, one)) is not None:
            return replace(row, detail=f"{CANT}{one} here: {why}")
        try:
            row = replace(row, **worker.ask(jobs[one], alone, spec, seconds=seconds))
        except (JobError, Crashed, TimedOut) as error:
            return replace(row, outcome=_outcome(one, error), detail=str(error))
        if row.outcome is Outcome.NOT_LOWERED:
            break
    return row


def _outcome(level: str, error: Exception) -> Outcome:
    kinds: dict[type[Exception], Outcome] = {Crashed: Outcome.CRASHED, TimedOut: Outcome.TIMED_OUT}
    other = Outcome.NOT_RUN if level == "run" else Outcome.NOT_LOWERED
    return kinds.get(type(error), other)


@lru_cache(maxsize=1)
def _model(spec: str) -> tuple[Model, Any]:
    from cede.model import load_model

    model = load_model(spec)
    return model, model.export()


_LOWERED: dict[str, Any] = {}
"""The last program that was lowered, for the job that runs it."""


def claimed(config: Config, spec: str) -> dict[str, Any]:
    """In the child: plan."""
    from cede import api

    plan = api.plan(_model(spec)[1], config)
    assert plan.graph is not None  # noqa: S101  (a plan made here has its graph)
    computing = {op.id for op in plan.graph.ops if not op.bookkeeping}
    return {
        "ops": len(computing),
        "delegated": len(computing & set(plan.delegation_of())),
        "delegates": len(plan.delegations),
    }


def lowered(config: Config, spec: str) -> dict[str, Any]:
    """In the child: compile."""
    from cede import api

    _LOWERED.clear()
    _LOWERED[spec] = api.lower(_model(spec)[1], config=config)
    return {"outcome": Outcome.LOWERED}


def checked(config: Config, spec: str) -> dict[str, Any]:
    """In the child: run, and compare with eager."""
    from cede import api

    model, _ = _model(spec)
    found = api.check(_LOWERED[spec], [model.call], config)
    return {
        "outcome": Outcome.RIGHT if found.passed else Outcome.WRONG,
        "error": found.max_error,
        "detail": "" if found.passed else found.message,
    }


def shown(rows: Sequence[ModelRow], form: str, width: int | None = None) -> str:
    """The table in one of the forms "text", "markdown", "csv" and "json"."""
    if form == "json":
        return json.dumps({"schema": 1, "rows": [_data(row) for row in rows]}, indent=1) + "\n"
    if form == "csv":
        made = io.StringIO()
        writer = csv.DictWriter(made, list(ModelRow.__dataclass_fields__), lineterminator="\n")
        writer.writeheader()
        writer.writerows(_data(row) for row in rows)
        return made.getvalue()
    tables = [table for table in _tables(rows) if table.rows]
    if form == "markdown":
        return "\n\n".join(as_markdown(table) for table in tables) + "\n"
    return "\n\n".join(as_text(table, width) for table in tables) + "\n"


def _tables(rows: Sequence[ModelRow]) -> Iterator[Table]:
    yield Table(
        title="Models",
        header=("model", "backend", "claimed", "delegates", "outcome", "max error", "why"),
        rows=[_cells(row) for row in rows if row.model != ANY],
        right=frozenset({2, 3, 5}),
    )
    less = {row.backend: row.detail for row in rows if row.detail.startswith(CANT)}
    yield Table(
        title="Tried less far than asked",
        header=("backend", "why no further"),
        rows=list(less.items()),
    )


def _data(row: ModelRow) -> dict[str, Any]:
    return {**asdict(row), "outcome": row.outcome.value}


def _cells(row: ModelRow) -> tuple[str, ...]:
    share = f"{row.delegated} of {row.ops} ({row.delegated / row.ops:.0%})" if row.ops else ""
    error = "" if row.error is None else f"{row.error:.2g}"
    delegates = str(row.delegates) if row.ops else ""
    said = row.outcome.value or "claimed"
    why = "" if row.detail.startswith(CANT) else row.detail
    return row.model, row.backend, share, delegates, said, error, why
