"""Shapes of programs that int8 goes wrong on: shared weights and scales, moved and growing data.

Each runs in ExecuTorch's runtime as the converted model does, within a step of its output's scale.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
import torch

import cede

if TYPE_CHECKING:
    from collections.abc import Callable

Tensors = tuple[torch.Tensor, ...]
CONFIG = cede.load_config(None, ["backends=[xnnpack]"])


class TiedScorer(torch.nn.Module):
    """One matrix projects the input and scores against itself."""

    def __init__(self) -> None:
        super().__init__()
        self.table = torch.nn.Linear(12, 12, bias=False)

    def forward(self, x: torch.Tensor) -> Tensors:
        return torch.relu(self.table(x)), self.table.weight * 2 - 1


class TiedPair(torch.nn.Module):
    """Two linear modules that share a weight, with biases of their own."""

    def __init__(self) -> None:
        super().__init__()
        self.there, self.back = torch.nn.Linear(12, 12), torch.nn.Linear(12, 12)
        self.back.weight = self.there.weight

    def forward(self, x: torch.Tensor) -> Tensors:
        return (self.back(torch.relu(self.there(x))),)


class Residual(torch.nn.Module):
    """A value below zero that goes on by itself, through relu, and in place."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.last = torch.nn.Conv1d(4, 4, 3, padding=1), torch.nn.Conv1d(4, 4, 1)

    def forward(self, x: torch.Tensor) -> Tensors:
        mixed = self.first(x)
        gated = torch.relu(mixed)
        out = self.last(gated)
        out += mixed
        return torch.relu(out), gated


class Transposed(torch.nn.Module):
    """relu, then a linear module over transposed data, added to what it came from."""

    def __init__(self) -> None:
        super().__init__()
        self.conv, self.head = torch.nn.Conv1d(4, 8, 3, padding=1), torch.nn.Linear(8, 8)

    def forward(self, x: torch.Tensor) -> Tensors:
        steps = torch.relu(self.conv(x)).transpose(1, 2)
        return (steps + self.head(steps),)


class Halves(torch.nn.Module):
    """A result cut in two halves of very different size."""

    def __init__(self) -> None:
        super().__init__()
        self.conv = torch.nn.Conv2d(2, 6, 3, padding=1)
        with torch.no_grad():
            self.conv.weight[:3] *= 20

    def forward(self, x: torch.Tensor) -> Tensors:
        both = self.conv(x)
        return (both[:, :3] * 0.5 + both[:, 3:],)


class Joined(torch.nn.Module):
    """Two branches of very different scale in one cat, then a slice of it."""

    def __init__(self) -> None:
        super().__init__()
        self.large, self.small = torch.nn.Conv2d(2, 4, 1), torch.nn.Conv2d(2, 4, 1)
        with torch.no_grad():
            self.large.weight.mul_(20)

    def forward(self, x: torch.Tensor) -> Tensors:
        joined = torch.cat([self.large(x), torch.relu(self.small(x))], dim=1)
        return (joined[:, 2:6] + 1.0,)


class Signal(torch.nn.Module):
    """A 1-D convolution over any number of signals."""

    def __init__(self) -> None:
        super().__init__()
        self.conv, self.head = torch.nn.Conv1d(1, 4, 5), torch.nn.Linear(4 * 12, 5)

    def forward(self, x: torch.Tensor) -> Tensors:
        return (self.head(torch.relu(self.conv(x)).flatten(1)),)


class Frames(torch.nn.Module):
    """A 1-D convolution over a signal of any length."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.last = torch.nn.Conv1d(2, 4, 3, padding=1), torch.nn.Conv1d(4, 3, 3)

    def forward(self, x: torch.Tensor) -> Tensors:
        return (self.last(torch.relu(self.first(x))),)


def some(*shape: int) -> Callable[[int], Tensors]:
    def make(seed: int) -> Tensors:
        return (torch.randn(*shape, generator=torch.Generator().manual_seed(seed)),)

    return make


BATCH = ({0: torch.export.Dim("batch", min=1, max=8)},)
LENGTH = ({2: torch.export.Dim("length", min=4, max=64)},)
SLOW = pytest.mark.slow


@pytest.mark.parametrize(
    ("kind", "make", "dynamic", "more"),
    [
        (TiedScorer, some(3, 12), None, []),
        pytest.param(TiedPair, some(3, 12), None, [], marks=SLOW),
        (Residual, some(1, 4, 10), None, []),
        pytest.param(Transposed, some(1, 4, 10), None, [], marks=SLOW),
        (Halves, some(1, 2, 6, 6), None, []),
        pytest.param(Joined, some(1, 2, 6, 6), None, [], marks=SLOW),
        (Signal, some(4, 1, 16), BATCH, [some(1, 1, 16), some(8, 1, 16)]),
        pytest.param(
            Frames, some(1, 2, 16), LENGTH, [some(1, 2, 5), some(1, 2, 64)], marks=SLOW
        ),
    ],
)  # fmt: skip
def test_int8_runs_as_the_converted_model_does(
    kind: type[torch.nn.Module],
    make: Callable[[int], Tensors],
    dynamic: Any,
    more: list[Callable[[int], Tensors]],
):
    torch.manual_seed(0)
    model = kind().eval()
    calls = [given(seed) for seed in range(3) for given in (make, *more)]
    program, report = cede.quantize_program(
        model, make(0), "xnnpack", calibration=calls, dynamic_shapes=dynamic, config=CONFIG
    )
    assert all(row.scheme or row.note for row in report.rows)
    lowered = cede.lower(program, config=CONFIG)
    assert not lowered.warnings  # no quantize op is left outside
    with torch.no_grad():
        outputs = [model(*args) for args in calls]
        reaches = [max(float(y.abs().max()) for y in ys) for ys in zip(*outputs, strict=True)]
        for given in (make, *more):
            args = given(0)
            found = zip(
                cede.run(lowered.buffer, args).outputs, program.module()(*args), model(*args),
                reaches, strict=True,
            )  # fmt: skip
            for got, converted, exact, reach in found:
                assert got.shape == exact.shape
                torch.testing.assert_close(got, converted, atol=1.1 * 2 * reach / 255, rtol=0)
                assert float((converted - exact).abs().max()) < 0.05 * reach


def test_a_shared_weight_is_told():
    torch.manual_seed(0)
    _, report = cede.quantize_program(TiedPair().eval(), some(3, 12)(0), "xnnpack", "dynamic")
    notes = {row.module: row.note for row in report.rows if row.op == "aten.linear"}
    assert notes["there"] == "its weight is also read by aten.linear in back"
    assert notes["back"] == "its weight is also read by aten.linear in there"


class Computed(torch.nn.Module):
    """A convolution whose weight is quantized while running, which XNNPACK leaves."""

    def __init__(self) -> None:
        super().__init__()
        self.conv = torch.nn.Conv2d(2, 3, 3)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.nn.functional.conv2d(rounded(torch.relu(x)), rounded(self.conv.weight))


def rounded(x: torch.Tensor) -> torch.Tensor:
    ops, given = torch.ops.quantized_decomposed, (0.02, 0, -128, 127, torch.int8)
    return ops.dequantize_per_tensor.default(ops.quantize_per_tensor.default(x, *given), *given)


def test_a_dequantize_beside_what_is_left_is_computed():
    torch.manual_seed(0)
    model, args = Computed().eval(), some(1, 2, 6, 6)(0)
    lowered = cede.export(model, args, config=CONFIG)
    rows = {row.target: row for row in lowered.report().rows}
    assert not rows["aten.convolution.default"].delegate
    assert rows["quantized_decomposed.dequantize_per_tensor.default"].delegate
    with torch.no_grad():
        torch.testing.assert_close(cede.run(lowered.buffer, args).outputs[0], model(*args))
