"""Where the tasks of a sweep are done: child processes here, or the workers of a Dask cluster."""

from __future__ import annotations

import pickle
from concurrent.futures import ThreadPoolExecutor, as_completed
from importlib.util import find_spec
from queue import SimpleQueue
from typing import TYPE_CHECKING, Any

from cede.calibrate.machine import cores
from cede.errors import ConfigError, LoweringError
from cede.support.worker import Worker
from cede.sweep.job import attempt
from cede.sweep.row import Outcome, Row
from cede.sweep.settings import DASK
from cede.sweep.tasks import versions

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Iterator, Sequence

    from cede.sweep.tasks import Task

CONNECTING = 10.0
"""Seconds that a scheduler may take to answer."""


def rows_from(
    engine: str,
    todo: Sequence[Task],
    seconds: float,
    jobs: int = 0,
    tell: Callable[[str], None] = lambda _: None,
) -> Generator[tuple[Task, Row], None, None]:
    """Each task with its row, as they get done. Closing the generator ends what still runs.

    Args:
        engine: "local" or "dask://host:port".
        todo: the tasks.
        seconds: how long one step may take.
        jobs: how many processes at a time on this machine; 0 is one a core.
        tell: called with what keeps the sweep waiting.

    Raises:
        ConfigError: no scheduler answers, or its workers have no cede.
        LoweringError: the cluster is lost meanwhile.
    """
    if todo and engine.startswith(DASK):
        yield from _on_dask(engine.removeprefix(DASK), todo, seconds, tell)
    elif todo:
        yield from _here(todo, seconds, jobs or cores())


def check_engine(engine: str) -> None:
    """Raise ConfigError where what an engine needs is not installed."""
    if engine.startswith(DASK) and find_spec("distributed") is None:
        raise ConfigError("the engine dask:// needs `pip install 'cede[dask]'`")


def _here(todo: Sequence[Task], seconds: float, jobs: int) -> Iterator[tuple[Task, Row]]:
    workers = [Worker() for _ in range(min(jobs, len(todo)))]
    free: SimpleQueue[tuple[Worker, str]] = SimpleQueue()
    for worker in workers:
        free.put((worker, ""))

    def one(task: Task) -> Row:
        worker, place = free.get()
        if place != task.place:  # its modules may have the names of others
            worker.stop()
        try:
            return attempt(worker, task, seconds)
        finally:
            free.put((worker, task.place))

    pool = ThreadPoolExecutor(len(workers))
    try:
        begun = {pool.submit(one, task): task for task in todo}
        for done in as_completed(begun):
            yield begun[done], done.result()
    finally:
        pool.shutdown(wait=False, cancel_futures=True)
        for worker in workers:
            worker.end()
        pool.shutdown()
        for worker in workers:
            worker.stop()


def _on_dask(
    address: str, todo: Sequence[Task], seconds: float, tell: Callable[[str], None]
) -> Iterator[tuple[Task, Row]]:
    import distributed

    try:
        client = distributed.Client(f"tcp://{address}", timeout=CONNECTING)
    except (OSError, TimeoutError, ValueError) as error:
        raise ConfigError(f"{DASK}{address}: no scheduler answers: {error}") from None
    with client:
        if not _workers_with_cede(client, address):
            tell(f"{DASK}{address}: has no worker yet")
        remote = _remote()
        begun = {
            # not pure: equal calls of it are still other tasks
            client.submit(remote, pickle.dumps((task, seconds)), pure=False): task
            for task in todo
        }
        for done in distributed.as_completed(begun):
            yield begun[done], _row_of(done, begun[done], address)


def _remote() -> Callable[[bytes], Row]:
    """What a worker does; as a function in a function it is sent by value, so that the scheduler,
    which looks at it, needs no cede.
    """

    def done(packed: bytes) -> Row:
        import pickle

        from cede.sweep.job import attempt_alone

        return attempt_alone(*pickle.loads(packed))

    return done


def _row_of(done: Any, task: Task, address: str) -> Row:
    if done.cancelled():
        raise LoweringError(
            f"{DASK}{address}: the scheduler is lost; the same command goes on where it stopped"
        )
    error = done.exception()
    if error is None:
        row: Row = done.result()
        return row
    lines = str(error).splitlines() or [""]
    return Row(
        model=task.model,
        config=task.name,
        outcome=Outcome.CRASHED,
        detail=f"{type(error).__name__}: {lines[0][:300]}",
    )


def _workers_with_cede(client: Any, address: str) -> int:
    """How many workers there are, each held against this machine before every row fails alone."""
    ours, found = versions(), client.run(versions, on_error="return")
    for worker, theirs in found.items():
        if isinstance(theirs, BaseException):
            raise ConfigError(f"{DASK}{address}: {worker} can't import cede: {theirs}")
        for name, wanted in ours.items():
            if theirs[name] != wanted:
                raise ConfigError(
                    f"{DASK}{address}: {worker} has {name} {theirs[name]}, here it is {wanted}"
                )
    return len(found)
