"""Is a settlement valid? For plans edited by hand and for plugins that settle."""

from __future__ import annotations

from typing import TYPE_CHECKING

from cede.settle.index import index_graph
from cede.settle.nodes import components, kahn, members, quotient
from cede.settle.path import spell, way_back

if TYPE_CHECKING:
    from collections.abc import Iterator

    from cede.settle.index import Index
    from cede.types import Delegation, OpGraph, Settlement


def check_settlement(graph: OpGraph, settlement: Settlement) -> list[str]:
    """Sentences on what is wrong with a settlement; an empty list means that it is valid.

    Valid: all ops exist, each stands in one delegation once, a delegation has ops and lives in one
    scope, a control-flow op has all its branches with it, a getitem its producer, and with each
    delegation as one node the graph has no cycle (so each is convex). O(V+E).
    """
    index = index_graph(graph)
    wrong: list[str] = []
    of: list[int] = [-1] * index.size
    taken = settlement.delegations
    ids: set[str] = set()
    for number, given in enumerate(taken):
        if given.id in ids:
            wrong.append(f"two delegations are called {given.id}; give each its own id")
        ids.add(given.id)
        wrong.extend(_take(number, given, index, of, taken))
    for loss in settlement.losses:
        if loss.op not in index.place:
            wrong.append(f"a loss of {loss.partitioner} is about {loss.op!r}, an unknown op")
    for number, given in enumerate(taken):
        own = sorted({index.place[op] for op in given.ops if op in index.place})
        wrong.extend(_scope_faults(given, [op for op in own if of[op] == number], index, of))
    wrong.extend(_getitem_faults(index, of, taken))
    wrong.extend(_cycles(index, of, taken))
    return wrong


def _take(
    number: int, given: Delegation, index: Index, of: list[int], taken: tuple[Delegation, ...]
) -> Iterator[str]:
    if not given.ops:
        yield f"{given.id} has no ops; remove it"
    for op in given.ops:
        place = index.place.get(op)
        if place is None:
            yield f"{given.id} names {op!r}, which is no op of this graph"
        elif of[place] == number:
            yield f"{given.id} names {op} twice"
        elif of[place] >= 0:
            yield f"{op} is in {taken[of[place]].id} and in {given.id}; leave it in one"
        else:
            of[place] = number


def _scope_faults(given: Delegation, own: list[int], index: Index, of: list[int]) -> Iterator[str]:
    nested: set[int] = set()
    whole = True
    for op in own:
        inside = index.inside.get(op, ())
        for inner in inside:
            nested.add(inner)
            if of[inner] != of[op] and whole:
                whole = False
                yield (
                    f"{given.id} has the control-flow op {index.name(op)} without"
                    f" {index.name(inner)} of its branches; put them all in one delegation"
                )
    outer = [op for op in own if op not in nested]
    stray = next((op for op in outer if index.scopes[op] != index.scopes[outer[-1]]), None)
    if stray is not None:
        yield (
            f"{given.id} spans scopes: {index.name(stray)} and {index.name(outer[-1])} are in"
            " different branches; split it, or add the control-flow op with all its branches"
        )


def _getitem_faults(index: Index, of: list[int], taken: tuple[Delegation, ...]) -> Iterator[str]:
    for pick, host in index.host.items():
        if of[pick] != of[host]:
            places = [taken[of[op]].id if of[op] >= 0 else "no delegation" for op in (pick, host)]
            yield (
                f"getitem {index.name(pick)} is in {places[0]}, its producer {index.name(host)} in"
                f" {places[1]}; they go together"
            )


def _cycles(index: Index, of: list[int], taken: tuple[Delegation, ...]) -> Iterator[str]:
    # Delegations are nodes 0.., the ops left are nodes of their own behind them.
    count, classes = len(taken), list(of)
    for op, number in enumerate(of):
        if number < 0:
            classes[op] = count
            count += 1
    feeds = quotient(classes, count, index.feeds)
    done = set(kahn(feeds))
    if len(done) == count:
        return
    found = components({node: feeds[node] for node in range(count) if node not in done})
    ops_of = members(classes, found)
    for tied in found:  # the first of a tangle is a delegation: ops alone make no cycle
        around = {node: ops_of[node] for node in tied}
        edges = way_back(tied[0], classes, around, index.feeds, True)
        passed = sorted({classes[op] for edge in edges for op in edge if classes[op] < len(taken)})
        names = ", ".join(taken[node].id for node in passed)
        kind = "is not convex" if len(passed) == 1 else "depend on one another"
        yield (
            f"{names} {kind}: {spell(edges, index)} (~ stands between ops of one delegation);"
            " split one of them"
        )
