"""How planning grows with the graph: cede's settling against torch.fx and ExecuTorch.

    python benchmarks/plan_scaling.py [--sizes 1000,2000,4000,10000,100000,1000000]
                                      [--peer-limit 60] [--seed 0]

Random graphs, 20 % of the ops unsupported; each op reads one to three of the 20 ops before it.
All times are CPU seconds of this process, so that other load counts little; graphs and claims are
built before the clock starts. "one": one backend claims every supported op, a claim an op. "two":
two backends claim 60 % of these each, the first one wins. The peers (`CapabilityBasedPartitioner`
of torch.fx, `GroupBasedPartitioner` of ExecuTorch without groups) get the graph of "one" and
answer through `propose_partitions()`, and so does `cede.fx.CapabilityPartitioner`, which settles
the graph of torch.fx. A peer isn't asked for larger graphs once one took longer than the limit, and
never with a limit of 0. Graphs of torch.fx are built up to 100,000 nodes, as they take several KB
a node. A ratio is a column's time over that of "one".
"""

from __future__ import annotations

import argparse
import gc
import random
import time
from typing import TYPE_CHECKING, Any

from tabulate import tabulate

from cede.settle import settle
from cede.types import Claim, Contest, Op, OpGraph

if TYPE_CHECKING:
    from collections.abc import Callable

Feeds = list[list[int]]

PEERS = ("cede.fx", "torch.fx", "executorch")

LARGEST_FX = 100_000


def random_feeds(size: int, chance: random.Random) -> Feeds:
    """Producers of each op."""
    return [
        sorted({chance.randrange(max(0, i - 20), i) for _ in range(chance.choice((1, 1, 2, 2, 3)))})
        if i
        else []
        for i in range(size)
    ]


def contest(feeds: Feeds, supported: list[int], backends: int, chance: random.Random) -> Contest:
    """The same graph and support as the peers get, as facts and claims."""
    ops = tuple(
        Op(id=f"n{i}", target="aten.add.Tensor", inputs=tuple([f"n{p}" for p in of]) or ("x",))
        for i, of in enumerate(feeds)
    )
    names = tuple("ab"[:backends])
    claims = tuple(
        Claim(partitioner=name, backend=name, ops=frozenset((f"n{i}",)))
        for name in names
        for i in supported
        if backends == 1 or chance.random() < 0.6
    )
    return Contest(graph=OpGraph(ops=ops), claims=claims, order=names)


def timed(call: Callable[[], int]) -> tuple[float, int]:
    """CPU seconds and the number of partitions."""
    gc.collect()
    start = time.process_time()
    count = call()
    return time.process_time() - start, count


def combine(*args: Any) -> Any:
    """What the nodes of the peers' graph call; never run."""
    return args


def peer(name: str, feeds: Feeds, supported: list[int]) -> Callable[[], int]:
    """Build torch.fx's graph; what is returned proposes the partitions."""
    import torch
    from executorch.exir.backend.canonical_partitioners.group_partitioner import (
        GroupBasedPartitioner,
    )
    from torch.fx.passes.infra.partitioner import CapabilityBasedPartitioner
    from torch.fx.passes.operator_support import OperatorSupportBase

    from cede.fx import CapabilityPartitioner

    kinds = dict(
        zip(
            PEERS,
            (CapabilityPartitioner, CapabilityBasedPartitioner, GroupBasedPartitioner),
            strict=True,
        )
    )
    wanted = {f"n{i}" for i in supported}

    class Supported(OperatorSupportBase):
        def is_node_supported(self, submodules: Any, node: torch.fx.Node) -> bool:
            return node.name in wanted

    graph = torch.fx.Graph()
    given = graph.placeholder("x")
    nodes: list[torch.fx.Node] = []
    for i, producers in enumerate(feeds):
        args = tuple(nodes[p] for p in producers) or (given,)
        nodes.append(graph.create_node("call_function", combine, args, name=f"n{i}"))
    graph.output(nodes[-1])
    module = torch.fx.GraphModule(torch.nn.Module(), graph)

    def propose() -> int:
        asked = kinds[name](module, Supported(), allows_single_node_partition=True)
        return len(asked.propose_partitions())

    return propose


def main() -> None:
    """Measure each size and print the table as it grows, then once more in full."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--sizes", default="1000,2000,4000,10000,100000,1000000")
    parser.add_argument("--peer-limit", type=float, default=60.0, metavar="SECONDS")
    parser.add_argument("--seed", type=int, default=0)
    given = parser.parse_args()
    headers = ["ops", "one s", "us/op", "count", "two s", "us/op", "count"]
    headers += [f"{name} {column}" for name in PEERS for column in ("s", "ratio", "count")]
    asked, rows = set(PEERS if given.peer_limit > 0 else ()), []
    for size in map(int, given.sizes.split(",")):
        chance = random.Random(given.seed)
        feeds = random_feeds(size, chance)
        supported = [i for i in range(size) if chance.random() < 0.8]
        row: list[object] = [size]
        first = 0.0
        for backends in (1, 2):
            made = contest(feeds, supported, backends, chance)
            seconds, count = timed(lambda made=made: len(settle(made).delegations))
            first = first or seconds
            row += [f"{seconds:.4f}", f"{seconds / size * 1e6:.1f}", count]
            del made
        for name in PEERS:
            if name not in asked or size > LARGEST_FX:
                row += ["-", "-", "-"]
                continue
            seconds, count = timed(peer(name, feeds, supported))
            row += [f"{seconds:.2f}", f"{seconds / first:.1f}x", count]
            if seconds > given.peer_limit:
                asked.discard(name)
        rows.append(row)
        print(*row, flush=True)
    print()
    print(tabulate(rows, headers=headers, disable_numparse=True))


if __name__ == "__main__":
    main()
