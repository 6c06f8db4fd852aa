"""What goes into a program that a backend's quantizer annotates: integers, and several."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import nn

import cede


class Lookup(nn.Module):
    """Ids and their mask to a mean, with positions that are counted from the mask.

    `add` and `mul` take numbers, of integers and of floats.
    """

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.words, self.places = nn.Embedding(16, 32), nn.Embedding(32, 32)
        self.linear = nn.Linear(32, 8)

    def forward(self, ids: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
        places = mask.cumsum(1) * 2 + 1
        states = self.linear(self.words(ids) + self.places(places) * 0.5)
        return (states * mask.unsqueeze(-1)).sum(1) + 1.0


class Picks(nn.Module):
    """Rows of a table by an int64 index that is computed, as attention masks are made."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.linear = nn.Linear(8, 8)

    def forward(self, x: torch.Tensor, first: torch.Tensor) -> torch.Tensor:
        rows = torch.arange(3) + 1
        return self.linear(x[rows[:, None], first[None] + 2]) * 0.5


IDS = torch.randint(0, 16, (2, 6), generator=torch.Generator().manual_seed(0))
MASK = (torch.arange(6) < torch.tensor([[6], [4]])).to(torch.int64)
X = torch.randn(4, 8, 8, generator=torch.Generator().manual_seed(0))


@pytest.mark.parametrize("mode", ["static", "dynamic"])
@pytest.mark.parametrize(("make", "args"), [(Lookup, (IDS, MASK)), (Picks, (X, torch.arange(4)))])
def test_numbers_of_integers_stay_integers(
    make: type[nn.Module], args: tuple[Any, ...], mode: str
) -> None:
    model = make().eval()
    program, report = cede.quantize_program(model, args, "xnnpack", mode, calibration=[args] * 2)
    assert {row.scheme for row in report.rows if row.op == "aten.linear"} == {mode}
    with torch.no_grad():
        wanted, floats = program.module()(*args), model(*args)
    assert 0 < float((wanted - floats).norm() / floats.norm()) < 0.05
    lowered = cede.lower(program, config="xnnpack-fp32")
    [got] = cede.run(lowered.buffer, list(args)).outputs
    assert float((got - wanted).norm() / wanted.norm()) < 1e-2


def test_each_row_of_a_dynamic_input_has_its_own_scale() -> None:
    """As the delegate computes it, the converted model says it: rows differ by 1000."""
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(16, 8), nn.GELU(), nn.Linear(8, 4)).eval()
    x = torch.randn(2, 3, 16) * torch.tensor([0.01, 1.0, 10.0])[:, None]
    program, _ = cede.quantize_program(model, (x,), "xnnpack", "dynamic", calibration=[(x,)])
    lowered = cede.lower(program, config="xnnpack-fp32")
    assert not lowered.report().left
    [got] = cede.run(lowered.buffer, [x]).outputs
    torch.testing.assert_close(got, program.module()(x), atol=1e-5, rtol=1e-5)
