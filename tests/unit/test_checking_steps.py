"""Numbers that were rounded to integers may be one step off, some of them."""

from __future__ import annotations

import pytest
import torch
import torchao.quantization.pt2e  # noqa: F401  its operators
from torch import nn

from cede.checking import Difference, compare
from cede.checking.steps import steps_of
from cede.config import CheckConfig

Q = torch.ops.quantized_decomposed
HOW = (0.5, 3, -128, 127, torch.int8)


class Rounds(nn.Module):
    """Outputs in integers, dequantized and moved, computed from such, and a number."""

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, ...]:
        given = Q.quantize_per_tensor(x, *HOW)
        floats = Q.dequantize_per_tensor(given, *HOW)
        return given.reshape(-1), floats.transpose(0, 1).unsqueeze(0), floats + 1, x


def test_the_steps_of_outputs() -> None:
    program = torch.export.export(Rounds(), (torch.randn(2, 3),))
    assert steps_of(program.graph) == (1.0, 0.5, 0.0, 0.0)
    from executorch.exir import to_edge

    edge = to_edge(program).exported_program()
    assert steps_of(edge.graph) == (1.0, 0.5, 0.0, 0.0)


def off(count: int, by: float, step: float, dtype: torch.dtype = torch.float32) -> Difference:
    wanted = torch.arange(200).to(dtype)
    got = wanted.clone()
    got[:count] += torch.tensor(by).to(dtype)
    return compare([got], [wanted], CheckConfig(), [step])


@pytest.mark.parametrize("dtype", [torch.float32, torch.int8])
def test_a_hundredth_may_be_one_step_off(dtype: torch.dtype) -> None:
    found = off(2, 1.0, 1.0, dtype)
    assert not found.fault
    assert found.stepped == 2
    assert found.rounded == "2 of 200 numbers rounded to the next step"
    assert off(3, 1.0, 1.0, dtype).fault
    assert off(1, 2.0, 1.0, dtype).fault
    assert off(1, 1.0, 0.0, dtype).fault


def test_one_number_of_few_may() -> None:
    wanted = torch.tensor([0.5, 1.0])
    assert not compare([wanted + torch.tensor([0.5, 0])], [wanted], CheckConfig(), [0.5]).fault
    assert compare([wanted + 0.5], [wanted], CheckConfig(), [0.5]).fault


@pytest.mark.parametrize("value", [float("nan"), float("inf")])
def test_what_is_no_number_is_no_step(value: float) -> None:
    wanted = torch.ones(200)
    got = wanted.clone()
    got[0] = value
    assert compare([got], [wanted], CheckConfig(), [1.0]).fault
    assert compare([wanted], [got], CheckConfig(), [1.0]).fault


def test_what_is_within_tolerance_is_not_counted() -> None:
    assert off(200, 1e-5, 0.5).rounded == ""
