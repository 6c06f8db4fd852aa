"""A delegate that a backend can't compile: the op at fault is found, and taken from that backend.

Beginnings of the delegate, in topological order, are compiled alone; the smallest that fails ends
in the op at fault. A beginning of a convex set of ops is convex, so each is a delegate that the
backend might have been given. Where the compiler's own message names an op, it is believed.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeVar

from cede.lowering.upstream import CompileError
from cede.types import Code, Reason

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from cede.planning import Plan
    from cede.types import Op, OpGraph

T = TypeVar("T")

MOST = 16
"""So many failures of compilers in one lowering are enough."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Failure:
    """An op that a backend could not compile.

    Attributes:
        backend: its name.
        op: the op.
        why: the compiler's message.
    """

    backend: str
    op: Op
    why: str

    @property
    def warning(self) -> str:
        """One sentence."""
        return (
            f"{self.backend} could not compile {self.op.where}, so it went to the next backend"
            f" that takes it or is left: {self.why}"
        )


def until_compiled(
    attempt: Callable[[], T],
    compiles: Callable[[Plan, str], bool | None],
    failures: list[Failure],
) -> T:
    """Repeat an attempt until every delegate of it compiles.

    Args:
        attempt: heeds `failures`.
        compiles: as for `failure_of`.
        failures: gets what was found.

    Raises:
        CompileError: the op at fault can't be found, or there are too many.
    """
    while True:
        try:
            return attempt()
        except CompileError as error:
            found = failure_of(error, compiles) if len(failures) < MOST else None
            if found is None or found in failures:
                raise
            failures.append(found)


def failure_of(error: CompileError, compiles: Callable[[Plan, str], bool | None]) -> Failure | None:
    """The op at fault.

    Args:
        error: what came of the delegate.
        compiles: whether the delegate of that id in a plan can be compiled; None where that can't
            be found out.

    Returns:
        None where the delegate compiles after all.
    """
    graph, given = error.graph, error.given
    if error.op in given.ops:
        return Failure(backend=given.backend, op=graph.op(error.op), why=error.why)
    ops = sorted(given.ops, key=graph.position)

    def fails(size: int) -> bool | None:
        found = compiles(error.plan.cut(given.id, set(ops[:size])), given.id)
        return None if found is None else not found

    if fails(len(ops)) is False:
        return None
    return Failure(
        backend=given.backend, op=graph.op(ops[shortest(len(ops), fails) - 1]), why=error.why
    )


def shortest(most: int, shows: Callable[[int], bool | None]) -> int:
    """The smallest size that shows a fault which the size `most` shows, by bisection.

    Args:
        most: at least 1.
        shows: whether a size shows it; None tells nothing, and another size is tried.
    """
    wrong, sizes = most, list(range(1, most))
    while sizes:
        size = sizes[len(sizes) // 2]
        found = shows(size)
        if found is None:
            sizes.remove(size)
        elif found:
            wrong, sizes = size, [other for other in sizes if other < size]
        else:
            sizes = [other for other in sizes if other > size]
    return wrong


def barred(failures: Sequence[Failure], graph: OpGraph) -> Mapping[str, Mapping[str, Reason]]:
    """By backend, the ops of a graph that it must not have again, with the reason."""
    found: dict[str, dict[str, Reason]] = {}
    for one in failures:
        # fewer kept ops may have shifted the ids
        if one.op.id in graph and _same(graph.op(one.op.id), one.op):
            reason = Reason(code=Code.COMPILE_FAILED, detail=one.why)
            found.setdefault(one.backend, {})[one.op.id] = reason
    return found


def _same(one: Op, other: Op) -> bool:
    return (one.target, one.module, one.source) == (other.target, other.module, other.source)
