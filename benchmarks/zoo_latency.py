"""Delegates and latency of the test zoo: stock ExecuTorch against cede, in one run.

    python benchmarks/zoo_latency.py [--models bert,llama] [--settle priority,cost] [--repeat 200]

For each model: the stock XNNPACK partitioner and each way of settling, lowered in this process;
then all programs are called in turn, so that load on the machine hits them alike. Latency is the
median of the calls in ExecuTorch's runtime; the ratio is stock's latency over cede's.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import time
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


class _Counting(XnnpackPartitioner):
    def partition(self, exported_program: Any) -> Any:
        result = super().partition(exported_program)
        self.count = len(result.partition_tags)
        return result


def programs(name: str, settles: list[str]) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """Inputs, and for each way (delegates, seconds to lower, bytes of the program)."""
    model, args = ZOO[name]()
    with torch.no_grad():
        program = torch.export.export(model, args)
    stock = _Counting()
    begin = time.perf_counter()
    edge = to_edge_transform_and_lower(program, partitioner=[stock])
    with torch.no_grad():
        data = edge.to_executorch().buffer
    made = {"stock": (stock.count, time.perf_counter() - begin, data)}
    for settle in settles:
        with torch.no_grad():
            program = torch.export.export(model, args)
        config = cede.load_config("xnnpack-fp32", [f"settle={settle}"])
        begin = time.perf_counter()
        lowered = cede.lower(program, config=config)
        made[settle] = (
            len(lowered.plan.delegations), time.perf_counter() - begin, lowered.buffer
        )  # fmt: skip
    return args, made


def latencies(args: tuple[Any, ...], made: dict[str, Any], repeat: int) -> dict[str, float]:
    """Median milliseconds of each program, called in turn."""
    runtime = Runtime.get()
    loaded = {way: runtime.load_program(data) for way, (_, _, data) in made.items()}
    methods = {way: program.load_method("forward") for way, program in loaded.items()}
    times: dict[str, list[float]] = {way: [] for way in made}
    for round_ in range(repeat + 10):
        for way, method in methods.items():
            begin = time.perf_counter()
            method.execute(list(args))
            if round_ >= 10:
                times[way].append(time.perf_counter() - begin)
    return {way: 1000 * statistics.median(given) for way, given in times.items()}


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
    parser.add_argument("--repeat", type=int, default=200)
    given = parser.parse_args()
    warm()
    rows = []
    for name in given.models.split(","):
        args, made = programs(name, given.settle.split(","))
        measured = latencies(args, made, given.repeat)
        for way, (delegates, seconds, data) in made.items():
            rows.append(
                (name, way, delegates, f"{seconds:.1f}", len(data), f"{measured[way]:.3f}",
                 f"{measured['stock'] / measured[way]:.2f}")
            )  # fmt: skip
    heads = ("model", "way", "delegates", "lower s", "bytes", "ms", "stock / this")
    print(tabulate(rows, headers=heads))


if __name__ == "__main__":
    main()
