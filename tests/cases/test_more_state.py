"""More forms of state, bfloat16, memory at a bound, and dynamic sizes of quantized programs."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from tests.cases.test_variations import agree, exported, randn
from torch import nn

import cede
from cede import api

CONFIGS = ["xnnpack-fp32", "reference"]


class Swapped(nn.Module):
    """Two states that take each other's place, one of them through an op, from values."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("one", torch.full((2, 4), 1.5))
        self.register_buffer("two", torch.arange(8.0).reshape(2, 4))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        before = self.one.clone()
        self.one.copy_(self.two)
        self.two.copy_(before + x)
        return self.one * 2.0


class Shown(nn.Module):
    """States that take over views of each other, and views of them that were read before."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("one", torch.full((2, 4), 1.5))
        self.register_buffer("two", torch.arange(8.0))

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, ...]:
        one, two = self.one.clone(), self.two.clone()
        first, second = one.reshape(4, 2), two.unsqueeze(0)
        self.one.copy_(two.reshape(2, 4))
        self.two.copy_(one.flatten())
        self.one.add_(x)
        return first, second, two.reshape(4, 2).transpose(0, 1), x * 2.0


class Passed(nn.Module):
    """Three states, each the one before: read by nothing else."""

    def __init__(self) -> None:
        super().__init__()
        for number, name in enumerate(("a", "b", "c")):
            self.register_buffer(name, torch.full((4,), float(number)))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        a = self.a * 1.0
        self.a.copy_(self.b)
        self.b.copy_(self.c.reshape(2, 2).flatten())
        self.c[:] = a + x[0]
        return x.sum(0) * 2.0 + a


class Turned(nn.Module):
    """A state that is turned round, and one that is written where a mask of another says so."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.lin = nn.Linear(4, 4)
        self.register_buffer("ring", torch.zeros(6, 4))
        self.register_buffer("best", torch.full((4,), -1.0))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        h = self.lin(x)
        self.ring.copy_(torch.cat([self.ring.roll(-1, 0)[:-2], h * 0.5], 0))
        self.best.copy_(torch.where(h[0] > self.best, h[0], self.best))
        return torch.cumsum(self.ring, 0).sum(0) + self.best


class Scattered(nn.Module):
    """Two caches of a head: one by `index_copy_`, one by a slice; both are read whole."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.k, self.v = nn.Linear(8, 8), nn.Linear(8, 8)
        self.register_buffer("keys", torch.full((1, 2, 6, 4), 0.1))
        self.register_buffer("values", torch.zeros(1, 6, 8))

    def forward(self, x: torch.Tensor, at: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        key = self.k(x).reshape(1, 1, 2, 4).transpose(1, 2)
        self.keys.index_copy_(2, at, key)
        self.values[:, at] = self.v(x)
        scores = torch.softmax(key @ self.keys.transpose(2, 3), -1)
        mixed = scores @ self.values.reshape(1, 6, 2, 4).transpose(1, 2)
        return mixed, scores


@pytest.mark.parametrize("config", CONFIGS)
@pytest.mark.parametrize("form", [Swapped, Shown, Passed, Turned, Scattered])
def test_state_that_is_written_from_state(form: type[nn.Module], config: str) -> None:
    if form is Scattered:
        calls = [(randn(1, 1, 8, seed=i), torch.tensor([i % 3])) for i in range(4)]
    else:
        calls = [(randn(2, 4, seed=i),) for i in range(4)]
    lowered = api.lower(exported(form().requires_grad_(False), *calls[0]), config=config)
    agree(lowered, calls)
    states = {state.name: state for state in lowered.report().states}
    assert len(states) == (3 if form is Passed else 2)
    assert {state.initial for state in states.values()} == {"kept"}


def test_a_functional_program_with_state_from_state() -> None:
    calls = [(randn(2, 4, seed=i),) for i in range(4)]
    program = exported(Swapped(), *calls[0]).run_decompositions({})
    before = str(program.graph), str(program.graph_signature)
    agree(api.lower(program, config="xnnpack-fp32"), calls)
    assert (str(program.graph), str(program.graph_signature)) == before


class Attention(nn.Module):
    """bfloat16 from the input on; a product of two values."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.q, self.k = (nn.Linear(8, 8).bfloat16() for _ in range(2))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.softmax(self.q(x) @ self.k(x).transpose(1, 2), -1)


class Ends(nn.Module):
    """float32 but for the last product, whose weight is bfloat16."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.first, self.last = nn.Linear(8, 8), nn.Linear(8, 8).bfloat16()

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.last(torch.relu(self.first(x)).bfloat16())


@pytest.mark.parametrize(("form", "taken"), [(Attention, 0), (Ends, 1)])
def test_products_in_bfloat16_have_their_reason(form: type[nn.Module], taken: int) -> None:
    x = randn(1, 3, 8).to(torch.bfloat16 if form is Attention else torch.float32)
    lowered = api.lower(exported(form().requires_grad_(False), x), config="xnnpack-fp32")
    products = ("aten.linear", "aten.addmm", "aten.bmm", "aten.mm", "aten.convolution")
    rows = [row for row in lowered.report().rows if row.target.startswith(products)]
    assert sum(bool(row.delegate) for row in rows) == taken
    for row in rows:
        assert row.delegate or "bfloat16" in row.reason, row
    assert any("cast" in one.do for one in lowered.report().advice)
    agree(lowered, [(x,)], 5e-2)


class Image(nn.Module):
    """Two sizes, whose product is the largest value."""

    def __init__(self) -> None:
        super().__init__()
        self.conv = nn.Conv2d(1, 2, 3, padding=1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.cumsum(self.conv(x), 3).amax(1)


def test_memory_of_two_sizes_names_both() -> None:
    high, wide = (torch.export.Dim(name, min=2, max=2048) for name in ("high", "wide"))
    x = randn(1, 1, 8, 8)
    lowered = api.lower(exported(Image(), x, sizes={"x": {2: high, 3: wide}}), config=CONFIGS[0])
    use = lowered.report().memory
    assert use is not None
    assert (use.largest[0].bytes, use.largest[0].example_bytes) == (4 * 2 * 2048**2, 4 * 2 * 64)
    [warned] = [text for text in lowered.warnings if "planned" in text or "plans" in text]
    assert warned.count("8 of at most 2048") == 2


class Rows(nn.Module):
    """Any even number of rows; a product of half of them."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.one, self.two = nn.Linear(16, 32), nn.Linear(64, 8)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.two(torch.relu(self.one(x)).reshape(1, -1, 64))


@pytest.mark.parametrize("mode", ["dynamic", "static"])
def test_quantized_rows_of_any_number(mode: str) -> None:
    length = torch.export.Dim("length", min=2, max=16)
    calls: list[tuple[Any, ...]] = [(randn(1, 2 * n, 16, seed=n),) for n in (4, 2, 16)]
    config = cede.load_config(None, ["backends=[xnnpack]"])
    program, _ = cede.quantize_program(
        Rows().eval(), calls[0], "xnnpack", mode, calibration=calls,
        dynamic_shapes=({1: 2 * length},), config=config,
    )  # fmt: skip
    lowered = cede.lower(program, config=config)
    assert lowered.plan.delegations
    for call in calls:
        got, wanted = cede.run(lowered.buffer, call).outputs[0], program.module()(*call)
        assert got.shape == wanted.shape
        torch.testing.assert_close(got, wanted, atol=3e-2, rtol=0)
