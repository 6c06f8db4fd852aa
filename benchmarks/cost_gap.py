"""How far cost mode is from the optimum, on random graphs small enough to know it.

    python benchmarks/cost_gap.py [--graphs 200] [--ops 10] [--seed 0]

The oracle looks at every legal way to give ops to takers and takers' ops to delegates, by branch
and bound, and counts seconds with the same `cede.costs.predicted`. The gap is cost mode's seconds
over the oracle's, minus one. "groups": every third claim takes two or three ops that go together.
"""

from __future__ import annotations

import argparse
import random
import statistics
import time
from dataclasses import replace
from typing import TYPE_CHECKING

from cede.costs import CostModel, predicted
from cede.settle import settle
from cede.types import Claim, Contest, Costs, Op, OpGraph, Rates, TensorFact

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

US = 1e-6
NAMES = ("ba", "bb", "bc")


def random_contest(
    chance: random.Random, size: int, backends: int, launch: float, groups: bool = False
) -> Contest:
    """A random graph, its claims and costs in whole nanoseconds.

    Args:
        chance: the source of randomness.
        size: number of ops.
        backends: number of backends; each claims 80 % of the ops.
        launch: seconds of each delegate.
        groups: whether some claims take several ops together.
    """
    ops = []
    for i in range(size):
        reach = range(max(0, i - 5), i)
        used = sorted(
            {chance.choice(reach) for _ in range(chance.choice((1, 1, 2, 2, 3)))} if i else ()
        )
        fact = TensorFact(shape=(1,), dtype="float32", nbytes=chance.randrange(0, 8000))
        inputs = tuple(f"n{p}" for p in used)
        ops.append(Op(id=f"n{i}", target="aten.op.default", inputs=inputs, outputs=(fact,)))
    read = {used for op in ops for used in op.inputs}
    graph = OpGraph(ops=tuple(ops), outputs=tuple(op.id for op in ops if op.id not in read))
    names = NAMES[:backends]
    base = {op.id: chance.randrange(100, 30_000) * 1e-9 for op in ops}
    given = {("", op): took for op, took in base.items()}
    for name in names:
        for op, took in base.items():
            given[name, op] = round(took * chance.choice((0.1, 0.3, 0.7, 1.3)) * 1e9) * 1e-9
    rates = Rates(
        flops_per_second=1e9,
        bytes_per_second=1e9,
        launch_seconds=launch,
        border_seconds=US,
        border_bytes_per_second=1e9,
    )
    return Contest(
        graph=graph,
        claims=tuple(_claims(chance, graph, names, groups)),
        order=names,
        mode="cost",
        costs=Costs(fallback=rates, backends=dict.fromkeys(names, rates), given=given),
    )


def _claims(
    chance: random.Random, graph: OpGraph, names: Sequence[str], groups: bool
) -> Iterator[Claim]:
    for name in names:
        for i, op in enumerate(graph.ops):
            if chance.random() < 0.8:
                ops = {op.id}
                if groups and chance.random() < 0.3:
                    ops.update(o.id for o in graph.ops[i + 1 : i + 1 + chance.choice((1, 2))])
                yield Claim(partitioner=name, backend=name, ops=frozenset(ops))


def oracle(contest: Contest, at_most: float) -> float:
    """The least seconds of any legal settlement, or `at_most` if none takes less.

    Legal: an op goes to a backend with a whole claim of it in one delegate, and with each delegate
    as one node the graph has no cycle. Limits and control flow are not looked at.
    """
    return _Oracle(contest, at_most).search()


class _Oracle:
    def __init__(self, contest: Contest, at_most: float) -> None:
        assert contest.costs is not None
        graph = contest.graph
        self.model = CostModel(graph, contest.costs)
        self.size = len(graph.ops)
        self.feeds = [[graph.position(used) for used in op.inputs] for op in graph.ops]
        self.names = tuple(dict.fromkeys(claim.backend for claim in contest.claims))
        self.claims = [
            (claim.backend, frozenset(graph.position(op) for op in claim.ops))
            for claim in contest.claims
        ]
        allowed = [{name for name, ops in self.claims if op in ops} for op in range(self.size)]
        self.allowed = [sorted(names) for names in allowed]
        self.compute = {name: self.model.compute(name) for name in ("", *self.names)}
        least = [
            min(self.compute[name][op] for name in ("", *self.allowed[op]))
            for op in range(self.size)
        ]
        self.rest = [sum(least[op:]) for op in range(self.size + 1)]
        self.best = at_most
        self.of: list[int] = []
        self.backends: list[str] = []

    def search(self) -> float:
        self._give(0, 0.0)
        return self.best

    def _give(self, op: int, compute: float) -> None:
        if compute + self.rest[op] + self._borders() >= self.best - 1e-15:
            return
        if op == self.size:
            if self._whole():
                self.best = compute + self._borders()
            return
        choices = [(group, name) for group, name in enumerate(self.backends)]
        choices = [(group, name) for group, name in choices if name in self.allowed[op]]
        choices += [(len(self.backends), name) for name in self.allowed[op]]
        for group, name in [*choices, (-1, "")]:
            fresh = group == len(self.backends)
            if fresh:
                self.backends.append(name)
            self.of.append(group)
            if group < 0 or fresh or self._acyclic():
                self._give(op + 1, compute + self.compute[name][op])
            self.of.pop()
            if fresh:
                self.backends.pop()

    def _borders(self) -> float:
        found = sum(self.model.launch(name) for name in self.backends)
        done = len(self.of)
        for value in self.model.values:
            if value.producer >= done:
                continue
            seen = tuple(reader for reader in value.readers if reader < done)
            known = replace(value, readers=seen)
            for group in self.model.crossed(known, self.of):
                found += self.model.crossing(value, self.backends[group])
        return found

    def _acyclic(self) -> bool:
        count = len(self.backends)
        node = [group if group >= 0 else count + op for op, group in enumerate(self.of)]
        reads: dict[int, set[int]] = {}
        waiting: dict[int, int] = dict.fromkeys(node, 0)
        for op, own in enumerate(node):
            for producer in self.feeds[op]:
                other = node[producer]
                if other != own and own not in reads.setdefault(other, set()):
                    reads[other].add(own)
                    waiting[own] += 1
        ready = [own for own, left in waiting.items() if not left]
        for own in ready:
            for reader in reads.get(own, ()):
                waiting[reader] -= 1
                if not waiting[reader]:
                    ready.append(reader)
        return len(ready) == len(waiting)

    def _whole(self) -> bool:
        members: dict[int, set[int]] = {}
        for op, group in enumerate(self.of):
            if group >= 0:
                members.setdefault(group, set()).add(op)
        return all(
            group < 0
            or any(
                name == self.backends[group] and op in ops and ops <= members[group]
                for name, ops in self.claims
            )
            for op, group in enumerate(self.of)
        )


def cost_of(contest: Contest) -> float:
    """Seconds of what `settle` makes of a contest."""
    assert contest.costs is not None
    return predicted(contest.graph, settle(contest), contest.costs).seconds


def gap(contest: Contest) -> float:
    """Cost mode's seconds over the oracle's, minus one."""
    found = cost_of(contest)
    best = oracle(contest, found)
    return found / best - 1 if best else 0.0


def main() -> None:
    """Measure the gaps, and how long 1,000 to 30,000 ops take."""
    from tabulate import tabulate

    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--graphs", type=int, default=200)
    parser.add_argument("--ops", type=int, default=10)
    parser.add_argument("--sizes", default="1000,10000,30000")
    parser.add_argument("--seed", type=int, default=0)
    given = parser.parse_args()
    rows = []
    for backends, launch, groups in (
        (1, 0.0, False),
        (1, 8 * US, False),
        (1, 8 * US, True),
        (2, 0.0, False),
        (2, 8 * US, False),
        (2, 8 * US, True),
    ):
        chance = random.Random(given.seed)
        gaps = sorted(
            gap(random_contest(chance, given.ops, backends, launch, groups))
            for _ in range(given.graphs)
        )
        exact = sum(each < 1e-9 for each in gaps) / len(gaps)
        rows.append(
            [backends, f"{launch / US:g}", "yes" if groups else "no", f"{exact:.1%}"]
            + [
                f"{each:.2%}"
                for each in (statistics.median(gaps), gaps[int(0.9 * len(gaps))], gaps[-1])
            ]
        )
        print(*rows[-1], flush=True)
    print()
    headers = ["backends", "launch us", "groups", "optimal", "median gap", "p90", "max"]
    print(tabulate(rows, headers=headers, disable_numparse=True))
    rows = []
    for size in map(int, given.sizes.split(",")):
        for backends in (1, 2):
            contest = random_contest(random.Random(given.seed), size, backends, 8 * US)
            start = time.process_time()
            found = cost_of(contest)
            took = time.process_time() - start
            least = cost_of(replace(contest, mode="priority"))
            rows.append([size, backends, f"{took:.2f}", f"{found / least:.1%}"])
            print(*rows[-1], flush=True)
    print()
    print(
        tabulate(
            rows, headers=["ops", "backends", "CPU s", "seconds of priority"], disable_numparse=True
        )
    )


if __name__ == "__main__":
    main()
