"""Lowering by cede and by ExecuTorch's own steps: the same model and partitioner, in one run.

    python benchmarks/lower.py [model ...]

Each figure is from a process of its own, that imports torch and exports the model first. Cold is
the first lowering there, with all imports that it needs; warm is the second, of a model exported
anew; again is one in a new process after cede has lowered the model before, with its cache; its
ratio is to stock's cold. Latency is of both programs called in turn. Times are CPU seconds of the
process, and wall seconds where it says so.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import torch

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT))

ZOO = ("torchcrepe", "resnet", "mobilenet", "vit", "bert", "llama")
MODELS = ("mlp", "stack4", "stack16", *ZOO)


class Block(torch.nn.Module):
    """A transformer layer of width 256."""

    def __init__(self, width: int = 256, heads: int = 4) -> None:
        super().__init__()
        self.heads = heads
        self.first, self.second = torch.nn.LayerNorm(width), torch.nn.LayerNorm(width)
        self.q, self.k, self.v, self.out = (torch.nn.Linear(width, width) for _ in range(4))
        self.up, self.down = torch.nn.Linear(width, 2 * width), torch.nn.Linear(2 * width, width)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Attention and a feed-forward net, each beside its input."""
        batch, length, width = x.shape
        y = self.first(x)
        split = (batch, length, self.heads, width // self.heads)
        q, k, v = (layer(y).view(split).transpose(1, 2) for layer in (self.q, self.k, self.v))
        y = torch.nn.functional.scaled_dot_product_attention(q, k, v)
        x = x + self.out(y.transpose(1, 2).reshape(batch, length, width))
        return x + self.down(torch.nn.functional.gelu(self.up(self.second(x))))


def made(name: str) -> tuple[torch.nn.Module, tuple[Any, ...]]:
    """A model with inputs."""
    torch.manual_seed(0)
    if name == "mlp":
        layers = (torch.nn.Linear(64, 128), torch.nn.ReLU(), torch.nn.Linear(128, 10))
        return torch.nn.Sequential(*layers).eval(), (torch.randn(1, 64),)
    if name.startswith("stack"):
        blocks = [Block() for _ in range(int(name.removeprefix("stack")))]
        return torch.nn.Sequential(*blocks).eval(), (torch.randn(1, 16, 256),)
    from tests import zoo

    return zoo.ZOO[name]()


def stock(program: Any) -> bytes:
    """The `.pte` by ExecuTorch's own steps."""
    from executorch.backends.xnnpack.partition.xnnpack_partitioner import XnnpackPartitioner
    from executorch.exir import to_edge_transform_and_lower

    lowered = to_edge_transform_and_lower(program, partitioner=[XnnpackPartitioner()])
    return bytes(lowered.to_executorch().buffer)


def ours(program: Any) -> bytes:
    """The `.pte` by cede, with the same partitioner adopted."""
    import cede
    from cede.config import Config

    return cede.lower(program, config=Config(backends=["xnnpack"])).buffer


def one(how: str, name: str, count: int) -> None:
    """Lower one model in this process, and print what was measured."""
    model, args = made(name)
    found: dict[str, Any] = {"cpu": [], "wall": []}
    data = b""
    for _ in range(count):
        with torch.no_grad():
            program = torch.export.export(model, args)
        before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        clock, wall = time.process_time(), time.perf_counter()
        data = {"stock": stock, "ours": ours}[how](program)
        found["cpu"].append(time.process_time() - clock)
        found["wall"].append(time.perf_counter() - wall)
        now = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        found.setdefault("peak", now / 1024)
        found.setdefault("peak_over", (now - before) / 1024)
    (folder() / f"{how}.pte").write_bytes(data)
    print(json.dumps({**found, "bytes": len(data)}))


def folder() -> Path:
    """Where the children of one model leave their programs."""
    return Path(os.environ["XDG_CACHE_HOME"])


def called(name: str) -> None:
    """Call both programs in turn, and print delegates, milliseconds and differences to eager.

    The time is the least of 300 calls.
    """
    from executorch.exir._serialize._program import deserialize_pte_binary
    from executorch.runtime import Runtime

    model, args = made(name)
    with torch.no_grad():
        wanted = model(*args)
    files = [(folder() / f"{how}.pte").read_bytes() for how in ("stock", "ours")]
    programs = [Runtime.get().load_program(data) for data in files]
    methods = [program.load_method("forward") for program in programs]
    found: dict[str, Any] = {"ms": [float("inf"), float("inf")]}
    found["off"] = [(m.execute(list(args))[0] - wanted).abs().max().item() for m in methods]
    plans = [deserialize_pte_binary(data).program.execution_plan[0] for data in files]
    found["delegates"] = [len(plan.delegates) for plan in plans]
    for _ in range(300):
        for i, method in enumerate(methods):
            start = time.perf_counter()
            method.execute(list(args))
            found["ms"][i] = min(found["ms"][i], (time.perf_counter() - start) * 1e3)
    print(json.dumps(found))


def child(cache: str, *given: str) -> dict[str, Any]:
    """What `one` or `called` prints, from a new process with a cache folder."""
    command = [sys.executable, "-W", "ignore", __file__, *given]
    done = subprocess.run(
        command, capture_output=True, text=True, check=False,
        env={**os.environ, "XDG_CACHE_HOME": cache},
    )  # fmt: skip
    if done.returncode:
        raise SystemExit(f"{' '.join(command)}:\n{done.stderr[-3000:]}")
    found: dict[str, Any] = json.loads(done.stdout.strip().splitlines()[-1])
    return found


HEAD = (
    "| model | cold: stock s | cede s | ratio | wall ratio | warm ratio | again ratio | peak ratio"
    " | size ratio | delegates | latency ratio | off eager: stock, cede |"
)


def row(name: str) -> str:
    """The row of one model."""
    with tempfile.TemporaryDirectory() as cache:
        theirs, mine, again = (
            child(cache, "--one", how, name, times)
            for how, times in (("stock", "2"), ("ours", "2"), ("ours", "1"))
        )
        both = child(cache, "--call", name)
    (cold, warm), (our_cold, our_warm) = theirs["cpu"], mine["cpu"]
    cells = [
        name, f"{cold:.1f}", f"{our_cold:.1f}", f"{our_cold / cold:.2f}",
        f"{mine['wall'][0] / theirs['wall'][0]:.2f}", f"{our_warm / warm:.2f}",
        f"{again['cpu'][0] / cold:.2f}", f"{mine['peak'] / theirs['peak']:.2f}",
        f"{mine['bytes'] / theirs['bytes']:.4f}", "{}, {}".format(*both["delegates"]),
        f"{both['ms'][1] / both['ms'][0]:.2f}", "{:.1e}, {:.1e}".format(*both["off"]),
    ]  # fmt: skip
    return f"| {' | '.join(cells)} |"


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("models", nargs="*", default=list(MODELS))
    parser.add_argument("--one", nargs=3, help=argparse.SUPPRESS)
    parser.add_argument("--call", help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.one:
        one(given.one[0], given.one[1], int(given.one[2]))
        return
    if given.call:
        called(given.call)
        return
    print(HEAD)
    print("|" + "---|" * (HEAD.count("|") - 1))
    for name in given.models:
        print(row(name), flush=True)


if __name__ == "__main__":
    main()
