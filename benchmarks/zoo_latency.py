"""Delegates and latency of the test zoo: stock ExecuTorch against cede, in one run.

    python benchmarks/zoo_latency.py [--models bert,llama] [--settle priority,cost] [--repeat 200]

For each model: the stock XNNPACK partitioner and each way of settling, lowered in this process;
then all programs are called in turn, so that load on the machine hits them alike. Latency is the
median of the calls in ExecuTorch's runtime; the ratio is the median over the rounds of stock's
latency over cede's in the same round. Predictions are from cede's default costs, or a profile.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from executorch.backends.xnnpack.partition.xnnpack_partitioner import XnnpackPartitioner
from executorch.exir import to_edge_transform_and_lower
from executorch.runtime import Runtime
from tabulate import tabulate

sys.path.insert(0, str(Path(__file__).parents[1]))
from tests.zoo import ZOO

import cede
from cede.costs import predicted
from cede.types import Delegation, Part, Settlement


class _Telling(XnnpackPartitioner):
    """The stock partitioner; keeps which ops it tagged."""

    def partition(self, exported_program: Any) -> Any:
        result = super().partition(exported_program)
        found: dict[str, list[str]] = {}
        for node in exported_program.graph.nodes:
            if (tag := node.meta.get("delegation_tag")) is not None and node.op == "call_function":
                found.setdefault(tag, []).append(node.name)
        self.delegations = tuple(
            Delegation(
                id=tag, backend="xnnpack", parts=(Part(partitioner="stock", ops=tuple(ops)),)
            )
            for tag, ops in found.items()
        )
        return result


@dataclass(frozen=True)
class Way:
    """One way to lower a model."""

    delegates: int
    seconds: float
    predicted: float
    data: bytes


def programs(name: str, settles: list[str], costs: str) -> tuple[tuple[Any, ...], dict[str, Way]]:
    """Inputs, and the program of each way."""
    model, args = ZOO[name]()
    with torch.no_grad():
        program = torch.export.export(model, args)
    stock = _Telling()
    begin = time.perf_counter()
    edge = to_edge_transform_and_lower(program, partitioner=[stock])
    with torch.no_grad():
        data = edge.to_executorch().buffer
    seconds = time.perf_counter() - begin
    made: dict[str, Way] = {}
    for settle in settles:
        with torch.no_grad():
            program = torch.export.export(model, args)
        config = cede.load_config("xnnpack-fp32", [f"settle={settle}", f"costs={costs}"])
        begin = time.perf_counter()
        lowered = cede.lower(program, config=config)
        took, plan = time.perf_counter() - begin, lowered.plan
        if "stock" not in made:  # the facts are the same for all
            guess = predicted(
                lowered.graph, Settlement(delegations=stock.delegations), plan.costs
            ).seconds
            made["stock"] = Way(len(stock.delegations), seconds, guess, data)
        guess = predicted(lowered.graph, plan, plan.costs).seconds
        made[settle] = Way(len(plan.delegations), took, guess, lowered.buffer)
    return args, made


def latencies(
    args: tuple[Any, ...], made: dict[str, Way], repeat: int
) -> dict[str, tuple[float, float]]:
    """For each way the median milliseconds, and the median ratio to stock; called in turn."""
    runtime = Runtime.get()
    loaded = {way: runtime.load_program(given.data) for way, given in made.items()}
    methods = {way: program.load_method("forward") for way, program in loaded.items()}
    times: dict[str, list[float]] = {way: [] for way in made}
    order = list(methods)
    for round_ in range(repeat + 10):
        order = order[1:] + order[:1]
        for way in order:
            begin = time.perf_counter()
            methods[way].execute(list(args))
            if round_ >= 10:
                times[way].append(time.perf_counter() - begin)
    return {
        way: (
            1000 * statistics.median(own),
            statistics.median(s / o for s, o in zip(times["stock"], own, strict=True)),
        )
        for way, own in times.items()
    }


def warm() -> None:
    """Lower something small both ways first: the first lowering of a process pays for imports."""
    program = torch.export.export(torch.nn.Linear(2, 2), (torch.randn(1, 2),))
    to_edge_transform_and_lower(program, partitioner=[XnnpackPartitioner()]).to_executorch()
    cede.lower(torch.export.export(torch.nn.Linear(2, 2), (torch.randn(1, 2),)))


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--models", default=",".join(ZOO))
    parser.add_argument("--settle", default="priority")
    parser.add_argument("--costs", default="roofline", help="or a profile of cede calibrate")
    parser.add_argument("--repeat", type=int, default=300)
    given = parser.parse_args()
    warm()
    rows = []
    for name in given.models.split(","):
        args, made = programs(name, given.settle.split(","), given.costs)
        measured = latencies(args, made, given.repeat)
        for way in made:
            found, (latency, ratio) = made[way], measured[way]
            rows.append(
                (name, way, found.delegates, f"{found.seconds:.1f}", len(found.data),
                 f"{1000 * found.predicted:.3f}", f"{latency:.3f}", f"{ratio:.2f}")
            )  # fmt: skip
    heads = (
        "model", "way", "delegates", "lower s", "bytes", "predicted ms", "ms", "stock / this"
    )  # fmt: skip
    print(tabulate(rows, headers=heads))


if __name__ == "__main__":
    main()
