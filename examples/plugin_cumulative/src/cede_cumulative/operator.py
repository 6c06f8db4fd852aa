"""The operator `cumulative::gated_scan`: schema, shapes, decomposition, and its library."""

from __future__ import annotations

from pathlib import Path

import torch

torch.library.define(
    "cumulative::gated_scan",
    "(Tensor gate, Tensor value, Tensor? start=None) -> (Tensor, Tensor)",
)


@torch.library.register_fake("cumulative::gated_scan")
def _shapes(
    gate: torch.Tensor, value: torch.Tensor, start: torch.Tensor | None = None
) -> tuple[torch.Tensor, torch.Tensor]:
    batch, _, channels = value.shape
    return value.new_empty(value.shape), value.new_empty(batch, channels)


@torch._decomp.register_decomposition(torch.ops.cumulative.gated_scan.default)
def step_by_step(
    gate: torch.Tensor, value: torch.Tensor, start: torch.Tensor | None = None
) -> tuple[torch.Tensor, torch.Tensor]:
    """The same with built-in operators, two for each time step; the number of steps is fixed."""
    state = torch.zeros_like(value[:, 0]) if start is None else start
    states = []
    for t in range(value.shape[1]):
        state = gate[:, t] * state + value[:, t]
        states.append(state)
    return torch.stack(states, 1), state


def _load() -> None:
    built = sorted(Path(__file__).parent.glob("_kernel*.so"))
    if not built:
        raise ImportError(
            f"the kernel beside {__file__} is not built: pip install the distribution"
        )
    torch.ops.load_library(built[0])


_load()


def gated_scan(
    gate: torch.Tensor, value: torch.Tensor, start: torch.Tensor | None = None
) -> tuple[torch.Tensor, torch.Tensor]:
    """A scan over time: h[t] = gate[t] * h[t - 1] + value[t].

    Args:
        gate, value: float32 [batch, time, channels].
        start: float32 [batch, channels], the state before the first step; zeros if None.

    Returns:
        Every state [batch, time, channels], and the last one [batch, channels].
    """
    result: tuple[torch.Tensor, torch.Tensor] = torch.ops.cumulative.gated_scan(gate, value, start)
    return result
