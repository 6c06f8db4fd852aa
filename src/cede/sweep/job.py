"""One model under one config: the steps in a child process, and the row that they make."""

from __future__ import annotations

import time
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from cede.support.worker import Crashed, JobError, TimedOut, Worker
from cede.sweep.row import Outcome, Row
from cede.sweep.settings import LEVELS

if TYPE_CHECKING:
    from collections.abc import Callable

    from cede.sweep.tasks import Task

_STATE: dict[str, Any] = {}
"""In the child: the model, and its program as far as it has come."""

_FAULTS: dict[type[Exception], Outcome] = {
    JobError: Outcome.FAILED,
    Crashed: Outcome.CRASHED,
    TimedOut: Outcome.TIMED_OUT,
}


def attempt(worker: Worker, task: Task, seconds: float) -> Row:
    """The row of a task; whatever the child does, there is one.

    Args:
        worker: has the child process.
        task: to be done.
        seconds: how long one step may take.
    """
    row = Row(model=task.model, config=task.name, outcome=Outcome.OK)
    began = time.monotonic()
    steps = LEVELS[: LEVELS.index(task.level) + 1] + ("bench",) * bool(task.calls)
    for step in steps:
        row = replace(row, step=step)
        try:
            row = replace(row, **worker.ask(STEPS[step], task, seconds=seconds))
        except (JobError, Crashed, TimedOut) as error:
            row = replace(row, outcome=_FAULTS[type(error)], detail=str(error))
        if row.outcome is not Outcome.OK:
            break
    return replace(row, took=round(time.monotonic() - began, 3))


def attempt_alone(task: Task, seconds: float) -> Row:
    """As `attempt`, in a child process of its own."""
    with Worker() as worker:
        return attempt(worker, task, seconds)


def _claim(task: Task) -> dict[str, Any]:
    from cede import api
    from cede.host import Host
    from cede.model import load_model
    from cede.reporting import require_whole

    _STATE.clear()
    model = load_model(task.spec).quantized(task.config.quantize, task.config)
    program = model.export()
    report = api.report(program, task.config)
    if task.config.strict:
        require_whole(report, Host.load(task.config).failures)
    _STATE.update(model=model, program=program, plan=report.plan)
    sums = report.totals
    return {
        "ops": sums.ops,
        "delegated": sums.delegated,
        "delegates": sums.delegates,
        "flops": sums.flops,
        "delegated_flops": sums.delegated_flops,
    }


def _lower(task: Task) -> dict[str, Any]:
    from cede import api

    if why := _cant("lower", task):
        return why
    lowered = _STATE["lowered"] = api.lower(_STATE["program"], config=task.config)
    return {"program_bytes": len(lowered.buffer)}


def _run(task: Task) -> dict[str, Any]:
    from cede import api

    if why := _cant("run", task):
        return why
    found = api.check(_STATE["lowered"], [_STATE["model"].call], task.config)
    told: dict[str, Any] = {"max_error": found.max_error}
    return told if found.passed else told | {"outcome": Outcome.WRONG, "detail": found.message}


def _bench(task: Task) -> dict[str, Any]:
    from cede import api

    model = _STATE["model"]
    timing = api.bench(_STATE["lowered"], model.inputs, task.config, calls=task.calls)
    return {"seconds": timing.seconds}


def _cant(step: str, task: Task) -> dict[str, Any]:
    """Why a backend of the plan can't do a step on this machine, as fields of the row."""
    from cede.host import Host

    host = Host.load(task.config)
    for name in dict.fromkeys(given.backend for given in _STATE["plan"].delegations):
        if why := getattr(host.availability(name), step):
            return {"outcome": Outcome.PARTLY, "detail": f"{name} can't {step} here: {why}"}
    return {}


STEPS: dict[str, Callable[[Task], dict[str, Any]]] = {
    "claim": _claim,
    "lower": _lower,
    "run": _run,
    "bench": _bench,
}
