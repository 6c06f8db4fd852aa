"""A fingerprint says whether a plan fits a program."""

from __future__ import annotations

import io
from typing import Any

import pytest
import torch
from executorch.exir import to_edge
from torch import nn
from torch.export import Dim, export, load, save

from cede.facts import read_graph


class Net(nn.Module):
    def __init__(self, width: int = 6, alpha: float = 2.0, op: Any = torch.relu) -> None:
        super().__init__()
        self.line = nn.Linear(4, width)
        self.register_buffer("bias", torch.zeros(width))
        self.alpha, self.op = alpha, op

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.add(self.op(self.line(x)), self.bias, alpha=self.alpha)


def exported(model: nn.Module, rows: int = 3, dtype: Any = torch.float32, **how: Any) -> Any:
    return export(model.to(dtype), (torch.ones(rows, 4, dtype=dtype),), **how)


def fingerprint(program: Any) -> str:
    return read_graph(to_edge(program).exported_program()).fingerprint


@pytest.fixture(scope="module")
def first() -> str:
    found = fingerprint(exported(Net()))
    assert len(found) == 64
    return found


def test_two_exports_of_one_model_and_other_weights(first: str) -> None:
    torch.manual_seed(7)
    assert fingerprint(exported(Net())) == first
    model = Net()
    with torch.no_grad():
        model.line.weight.zero_()
        model.bias.add_(3)
    assert fingerprint(exported(model)) == first


def test_saved_and_loaded(first: str) -> None:
    file = io.BytesIO()
    save(exported(Net()), file)
    file.seek(0)
    assert fingerprint(load(file)) == first


def test_symbolic_sizes_saved_and_loaded() -> None:
    shapes = {"x": {0: Dim("rows", min=1, max=9)}}
    program = exported(Net(), dynamic_shapes=shapes)
    again = exported(Net(), dynamic_shapes=shapes)
    file = io.BytesIO()
    save(program, file)
    file.seek(0)
    found = fingerprint(program)
    assert fingerprint(again) == found
    assert fingerprint(load(file)) == found


@pytest.mark.parametrize(
    "other",
    [
        lambda: exported(Net(width=7)),
        lambda: exported(Net(), rows=5),
        lambda: exported(Net(), dtype=torch.float64),
        lambda: exported(Net(op=torch.tanh)),
        lambda: exported(Net(alpha=3.0)),
        lambda: exported(Net(), dynamic_shapes={"x": {0: Dim("rows", min=1, max=9)}}),
    ],
    ids=["width", "rows", "dtype", "operator", "argument", "dynamic"],
)
def test_another_program(first: str, other: Any) -> None:
    assert fingerprint(other()) != first


def test_other_bounds_are_another_program() -> None:
    prints = {
        fingerprint(exported(Net(), dynamic_shapes={"x": {0: Dim("rows", min=1, max=high)}}))
        for high in (9, 17)
    }
    assert len(prints) == 2


def test_a_branch_counts() -> None:
    class Flow(nn.Module):
        def __init__(self, add: float) -> None:
            super().__init__()
            self.add = add

        def forward(self, flag: torch.Tensor, x: torch.Tensor) -> torch.Tensor:
            return torch.cond(flag, lambda x: x.tanh(), lambda x: x.clamp(max=self.add), (x,))

    prints = {
        fingerprint(export(Flow(add), (torch.tensor(True), torch.ones(2)))) for add in (1.0, 2.0)
    }
    assert len(prints) == 2
