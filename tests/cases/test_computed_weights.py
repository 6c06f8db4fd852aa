"""Weights that are computed from parameters alone are computed once, ahead of time."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from cede import api


class Masked(nn.Module):
    """A pruned weight, a scaled one that two layers share, and one that depends on the input."""

    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.randn(6, 4))
        self.register_buffer("mask", (torch.rand(6, 4) > 0.5).float())
        self.square = nn.Parameter(torch.randn(6, 6))

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        shared = self.square.abs() / self.square.norm()
        h = nn.functional.linear(x, self.weight * self.mask)
        h = nn.functional.linear(torch.relu(nn.functional.linear(h, shared)), shared)
        return h, nn.functional.linear(h, self.square * x.sum()) + self.square.sum()


def parametrized() -> nn.Module:
    norm = nn.utils.parametrizations.weight_norm
    return nn.Sequential(norm(nn.Conv1d(4, 8, 3)), nn.ReLU(), norm(nn.Conv1d(8, 4, 3)))


@pytest.mark.parametrize(
    ("model", "shape", "products"),
    [(parametrized(), (1, 4, 16), 2), (Masked(), (2, 4), 3)],
    ids=["weight norm", "masked"],
)
def test_the_products_are_delegated(
    model: nn.Module, shape: tuple[int, ...], products: int
) -> None:
    x = torch.randn(*shape)
    before = {name: value.clone() for name, value in model.state_dict().items()}
    lowered = api.export(model.eval(), (x,), config="xnnpack-fp32")
    taken = lowered.plan.delegation_of()
    kinds = ("aten.linear", "aten.convolution", "aten.addmm", "aten.mm")
    assert sum(op.kind in kinds and op.id in taken for op in lowered.graph.ops) >= products
    outcome = api.check(lowered, [(x,), (x * 2,)])
    assert outcome.passed, outcome.message
    for name, value in model.state_dict().items():
        assert torch.equal(value, before[name])


class Grows(nn.Module):
    """A weight that would take more room once it is computed, and one that is written."""

    def __init__(self) -> None:
        super().__init__()
        self.row = nn.Parameter(torch.randn(1, 64))
        self.register_buffer("state", torch.ones(64, 64))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self.state.add_(1.0)
        x = nn.functional.linear(x, (self.row * 2.0).repeat(256, 1))
        return nn.functional.linear(x[:, :64], self.state * 0.5)


def test_what_would_grow_or_is_written_is_left() -> None:
    x = torch.randn(2, 64)
    lowered = api.export(Grows().eval(), (x,), config="reference")
    assert any(op.kind == "aten.repeat" for op in lowered.graph.ops)
    outcome = api.check(lowered, [(x,), (x,)])
    assert outcome.passed, outcome.message
