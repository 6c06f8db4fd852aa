"""Time a program with the kernel and the same program with the operator decomposed.

python bench.py [time steps]
"""

from __future__ import annotations

import sys
import time

import torch
from cede_cumulative.operator import gated_scan

import cede
from cede.host import Host
from cede.running import load

# Nobody but `cumulative` asks for the operator to stay whole.
FORMS = {"kernel": ["cumulative", "reference"], "decomposed": ["reference"]}


class Layer(torch.nn.Module):
    """A minimal gated recurrent layer: float32 [1, time, channels] in and out."""

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.gate = torch.nn.Linear(channels, channels)
        self.value = torch.nn.Linear(channels, channels)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Every state, plus the last one."""
        gate, value = torch.sigmoid(self.gate(x)), self.value(x)
        states, last = gated_scan(gate, value - gate * value)
        return states + last.unsqueeze(1)


def seconds(program: bytes, x: torch.Tensor, repeat: int = 30) -> float:
    """The shortest of some calls in the reference backend's runner."""
    loaded = load(program, Host.load(cede.load_config()).backends)
    times = []
    for _ in range(repeat):
        begin = time.perf_counter()
        loaded.run([x])
        times.append(time.perf_counter() - begin)
    return min(times)


def main(steps: int) -> None:
    """Print both times and their ratio."""
    torch.set_num_threads(1)  # small tensors, and a machine that may be busy
    torch.manual_seed(0)
    model, x = Layer(64).eval(), torch.randn(1, steps, 64)
    took = {}
    for name, partitioners in FORMS.items():
        config = cede.Config(backends=["reference"], partitioners=partitioners)
        lowered = cede.export(model, (x,), config=config)
        assert cede.check(lowered, [(x,)], config).passed
        took[name] = seconds(lowered.buffer, x)
        ops = sum(len(given.ops) for given in lowered.plan.delegations)
        print(f"{name}: {ops} ops in one delegate, {took[name] * 1e3:.3f} ms")
    print(f"ratio: {took['decomposed'] / took['kernel']:.1f}")


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 128)
