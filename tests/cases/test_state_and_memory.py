"""The report lists what a call writes, and the memory that its values take."""

from __future__ import annotations

import json

import pytest
import torch
from torch import nn

from cede import api
from cede.lowering.memory import _peak


class Written(nn.Module):
    """Buffers that are written whole, by place, and by the last op; two of them start at values."""

    def __init__(self) -> None:
        super().__init__()
        self.lin = nn.Linear(4, 4)
        self.register_buffer("mean", torch.full((4,), 5.0))
        self.register_buffer("rows", torch.arange(12.0).reshape(3, 4))
        self.register_buffer("last", torch.zeros(4))

    def forward(self, x: torch.Tensor, place: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        before = self.last * 2.0
        self.mean.mul_(0.5).add_(x)
        self.rows[place] = self.lin(x)
        out = self.rows.sum(0) + self.mean
        self.last.copy_(x)
        return out, before


def test_buffers_keep_their_values_and_are_listed() -> None:
    calls = [(torch.full((4,), float(i)), torch.tensor([i % 3])) for i in range(1, 5)]
    with torch.no_grad():
        program = torch.export.export(Written().eval(), calls[0])
    lowered = api.lower(program, config="xnnpack-fp32")
    outcome = api.check(lowered, calls)
    assert outcome.passed, outcome.message
    report = lowered.report()
    states = {given.name: given for given in report.states}
    assert states.keys() == {"mean", "rows", "last"}
    assert {given.initial for given in states.values()} == {"kept"}
    assert (states["rows"].bytes, states["rows"].tensor) == (48, "float32[3,4]")
    assert states["rows"].written.startswith("aten_index_put")
    assert states["rows"].owner == ""
    assert states["mean"].owner == "d0"
    text = report.text()
    assert "State\n" in text
    assert "aten_index_put_default, copied back" in text
    assert [s["name"] for s in json.loads(report.json())["states"]] == [
        s.name for s in report.states
    ]


class Writes(nn.Module):
    def forward(self, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        return y + x.mul_(2.0)


def test_a_written_input_is_the_callers() -> None:
    x = torch.ones(3)
    found = api.report(torch.export.export(Writes(), (x, x.clone())), config="xnnpack-fp32")
    assert [(s.name, s.kind, s.initial) for s in found.states] == [("x", "input", "the caller's")]


class Square(nn.Module):
    """Its largest value grows with the square of the length."""

    def __init__(self) -> None:
        super().__init__()
        self.lin = nn.Linear(4, 4)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.cumsum(self.lin(x) @ x.transpose(1, 2), -1).amax(-1)


@pytest.mark.parametrize(("most", "warns"), [(16, False), (3000, True)])
def test_memory_at_the_bound_and_for_the_example(most: int, warns: bool) -> None:
    length = torch.export.Dim("length", min=2, max=most)
    program = torch.export.export(
        Square().eval(), (torch.randn(1, 8, 4),), dynamic_shapes={"x": {1: length}}
    )
    lowered = api.lower(program, config="xnnpack-fp32")
    use = lowered.report().memory
    assert use is not None
    assert use.planned >= use.live >= 4 * most * most  # the square, at its bound
    assert 4 * 8 * 8 <= use.example_live < 4 * 8 * 8 * 8
    assert use.largest[0].bytes == 4 * most * most
    assert use.largest[0].example_bytes == 256
    warned = [text for text in lowered.warnings if "planned" in text or "plans" in text]
    assert bool(warned) == warns
    if warns:
        assert "8 of at most 3000" in warned[0]
        assert use.largest[0].op in warned[0]
    assert "planned for the values of a call; the example's sizes need" in lowered.report().text()


def test_the_peak_of_lifetimes() -> None:
    assert _peak([]) == 0
    assert _peak([([0, 2], 4), ([2, 3], 8), ([3, 3], 1)]) == 12  # both ends are alive
    assert _peak([([0, 1], 4), ([2, 3], 8)]) == 8
