"""Which operators would merge most delegates if a backend supported them."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from cede.whatif.ask import compared, refused_by, supporting
from cede.whatif.records import Rank

if TYPE_CHECKING:
    from cede.types import OpGraph, Reason
    from cede.whatif.records import Asked

SETTLES = 50
"""How many operators are tried at most."""

EFFORT = 200_000
"""How many ops are settled at most, all tries together; one try is always made."""


def ranked(asked: Asked) -> tuple[Rank, ...]:
    """What the support of each refused operator would change, operator by operator.

    Sorted by how many delegates fewer there would be, then by FLOPs gained. Only operators are
    tried of which an op reads from a delegate of that backend or is read by one: no other could
    merge two. Those that touch most delegates are tried first, at most `SETTLES` of them and fewer
    in programs of more than `EFFORT / SETTLES` ops.
    """
    candidates = []
    for backend in dict.fromkeys(asked.backends.values()):
        near = _neighbours(asked, backend)
        by_kind: dict[str, list[str]] = {}
        for op in asked.graph.ops:
            if not op.bookkeeping and op.id in near.refused:
                by_kind.setdefault(op.kind, []).append(op.id)
        for kind, ops in by_kind.items():
            touched = {delegate for op in ops for delegate in near.delegates(op)}
            if touched:
                candidates.append((len(touched), kind, backend, ops))
    candidates.sort(key=lambda one: -one[0])  # stable: of equal ones the first in the graph
    most = max(1, min(SETTLES, EFFORT // max(1, len(asked.graph.ops))))
    found = [_rank(asked, *candidate) for candidate in candidates[:most]]
    return tuple(sorted(found, key=lambda rank: (-rank.merged, -rank.flops)))


def _rank(asked: Asked, touches: int, kind: str, backend: str, ops: list[str]) -> Rank:
    answers = supporting(asked, asked.answers, ops, backend)
    return Rank(
        kind=kind,
        backend=backend,
        ops=tuple(ops),
        touches=touches,
        reason=_usual_reason(asked, set(ops), backend),
        comparison=compared(asked, answers, f"supporting {kind} on {backend}"),
    )


def _usual_reason(asked: Asked, ops: set[str], backend: str) -> Reason:
    reasons = Counter(
        refusal.reason
        for given in asked.answers
        for refusal in given.refusals
        if refusal.op in ops and asked.backends.get(refusal.partitioner) == backend
    )
    return reasons.most_common(1)[0][0]


def _neighbours(asked: Asked, backend: str) -> _Neighbours:
    home = {
        op: given.id
        for given in asked.plan.delegations
        if given.backend == backend
        for op in given.ops
    }
    return _Neighbours(asked.graph, home, refused_by(asked, backend))


class _Neighbours:
    """Which delegates of a backend an op touches, past getitems."""

    def __init__(self, graph: OpGraph, home: dict[str, str], refused: set[str]) -> None:
        self.graph, self.home, self.refused = graph, home, refused

    def delegates(self, id: str) -> set[str]:
        """Ids of the delegates that the op reads from or is read by."""
        graph = self.graph
        before = [self._host(used) for used in graph.op(id).inputs if used in graph]
        after, waiting = [], list(graph.users(id))
        while waiting:
            user = waiting.pop()
            if graph.op(user).target == "getitem":
                waiting.extend(graph.users(user))
            after.append(user)
        return {self.home[op] for op in (*before, *after) if op in self.home}

    def _host(self, id: str) -> str:
        op = self.graph.op(id)
        while op.target == "getitem" and op.inputs and op.inputs[0] in self.graph:
            op = self.graph.op(op.inputs[0])
        return op.id
