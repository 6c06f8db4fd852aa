"""Kinds of programs that lowering tools get wrong in silence: the numbers are eager's.

Each model holds several variations of its kind, so that a kind costs one compilation.
"""

from __future__ import annotations

import gc
import io
from typing import Any

import pytest
import torch
from torch import nn

import cede
from cede import api


def lowered(model: nn.Module, *args: Any, config: str | cede.Config = "xnnpack-fp32") -> Any:
    with torch.no_grad():
        program = torch.export.export(model.eval(), args)
    return api.lower(program, config=config)


def agree(result: Any, calls: list[tuple[Any, ...]], atol: float = 1e-4) -> None:
    outcome = api.check(result, calls, api.load_config(None, [f"check.atol={atol}"]))
    assert outcome.passed, outcome.message


class Keywords(nn.Module):
    """Keyword arguments that change the result and that a kernel may not have."""

    def forward(self, x: torch.Tensor, y: torch.Tensor) -> tuple[torch.Tensor, ...]:
        return (
            torch.add(x, y, alpha=10),
            torch.sub(x, y, alpha=3),
            torch.rsub(x, y, alpha=-2),
            x.clone().add_(y, alpha=0.5),
            torch.div(x, y, rounding_mode="floor"),
            torch.div(x, y, rounding_mode="trunc"),
            nn.functional.gelu(x, approximate="tanh"),
            nn.functional.elu(x, alpha=0.25),
            nn.functional.leaky_relu(x, 0.3),
            torch.clamp(x, max=0.1),
        )


class Stubborn(nn.Module):
    """Claimed ops around one that is left: a residual past it, its value used again, a chain."""

    def __init__(self) -> None:
        super().__init__()
        self.a, self.b, self.c = nn.Linear(8, 8), nn.Linear(8, 8), nn.Linear(8, 8)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        h = self.a(x)
        s = torch.cumsum(h, -1)
        t = torch.cumsum(torch.tanh(s) + h, 0)
        return self.c(self.b(s) + h) + t * h + s


class Written(nn.Module):
    """A copy into a buffer as the last op; caches written with a slice of a later op."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("last", torch.ones(1, 4, 1))
        self.register_buffer("rolling", torch.zeros(1, 4, 4))
        self.register_buffer("shifted", torch.zeros(1, 4, 2))
        self.conv = nn.Conv1d(4, 4, 5)

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        before = self.last.clone() * 2.0
        h = torch.cat([self.rolling, x], -1)
        self.rolling.copy_(h[..., -4:])
        seen = self.shifted.sum(-1)
        self.shifted.copy_((h + 1.0)[..., 1:3])
        self.last.copy_(x)
        return self.conv(h), before, seen


class Dtypes(nn.Module):
    """Two dtypes meet: half and float, integers and float, and float64."""

    def __init__(self) -> None:
        super().__init__()
        self.lin = nn.Linear(8, 8).half()
        self.register_buffer("cos", torch.rand(4, 8).half())
        self.register_buffer("count", torch.arange(8, dtype=torch.int32))

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        q = self.lin(x).float()
        mixed = (q * self.cos + q * self.cos.float()).type_as(x)
        return mixed, q + self.count, torch.relu(q.double() * 0.5)


class Integers(nn.Module):
    """Ops that backends know in float32, on other dtypes."""

    def forward(
        self, a: torch.Tensor, b: torch.Tensor, c: torch.Tensor
    ) -> tuple[torch.Tensor, ...]:
        return torch.abs(a), torch.add(b, 1), torch.maximum(b, b * 2), c & (a > 1), a.sum(0)


class Shared(nn.Module):
    """Products that share one activation, over several layers."""

    def __init__(self) -> None:
        super().__init__()
        self.k = nn.ModuleList(nn.Linear(32, 32) for _ in range(2))
        self.v = nn.ModuleList(nn.Linear(32, 32) for _ in range(2))

    def forward(self, x: torch.Tensor, shared: torch.Tensor) -> torch.Tensor:
        for k, v in zip(self.k, self.v, strict=True):
            weights = torch.softmax(x @ k(shared).transpose(1, 2), -1)
            x = x + weights @ v(shared)
        return x


def randn(*sizes: int, dtype: torch.dtype = torch.float32) -> torch.Tensor:
    return torch.randn(*sizes, generator=torch.Generator().manual_seed(1)).to(dtype)


def rolling() -> list[tuple[torch.Tensor]]:
    return [(randn(1, 4, 1) + i,) for i in range(4)]


KINDS: dict[str, tuple[nn.Module, list[tuple[Any, ...]], float]] = {
    "keywords": (Keywords(), [(randn(10), randn(10) + 3.0)], 1e-4),
    "left between": (Stubborn(), [(randn(3, 8),)], 1e-4),
    "written": (Written(), rolling(), 1e-4),
    "dtypes": (Dtypes(), [(randn(4, 8, dtype=torch.float16),)], 5e-3),
    "integers": (
        Integers(),
        [
            (
                torch.tensor([1, -2, 3], dtype=torch.int8),
                torch.tensor([1, 2, 255], dtype=torch.uint8),
                torch.tensor([True, True, False]),
            )
        ],
        0.0,
    ),
}


@pytest.mark.parametrize("kind", KINDS)
def test_the_numbers_are_eagers(kind: str) -> None:
    model, calls, atol = KINDS[kind]
    result = lowered(model, *calls[0])
    agree(result, calls, atol)
    for row in result.report().left:
        assert row.reason


def test_an_argument_that_a_delegate_ignores_is_the_reason() -> None:
    calls = KINDS["keywords"][1]
    report = api.report(torch.export.export(Keywords(), calls[0]), "xnnpack-fp32")
    reasons = {row.target: row.reason for row in report.left}
    assert "alpha" in reasons["aten.add.Tensor"]
    assert "approximate='tanh' would be ignored" in reasons["aten.gelu.default"]


@pytest.mark.parametrize("backend", ["coreml", "openvino", "xnnpack"])
def test_dtypes_are_right_or_refused_with_the_dtype(backend: str) -> None:
    _, calls, _ = KINDS["integers"]
    config = api.load_config(None, [f"backends=[{backend}]"])
    try:
        report = api.report(torch.export.export(Integers(), calls[0]), config)
    except cede.PluginError as error:
        pytest.skip(str(error))
    kinds = ("aten.abs", "aten.maximum")
    left = [row for row in report.left if row.target.startswith(kinds)]
    for row in left:
        assert "int8" in row.reason, row
    if backend == "openvino":  # has them
        agree(lowered(Integers(), *calls[0], config=config), calls, 0.0)
    else:
        assert len(left) == len(kinds)


def test_products_of_one_activation_stay_dynamically_quantized() -> None:
    from torchao.quantization import Int8DynamicActivationIntxWeightConfig, PerAxis, quantize_

    model = Shared().eval()
    quantize_(model, Int8DynamicActivationIntxWeightConfig(torch.int8, PerAxis(0)))
    x, shared = randn(1, 4, 32), randn(1, 6, 32)
    result = lowered(model, x, shared)
    products = [op.id for op in result.graph.ops if op.kind == "aten.linear"]
    assert len(products) == 4
    assert set(products) <= set(result.plan.delegation_of())
    with torch.no_grad():
        wanted = model(x, shared)
    got = api.run(result.buffer, [x, shared]).outputs[0]
    assert (got - wanted).norm() / wanted.norm() < 2e-2


class Convolved(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.first, self.last = nn.Conv1d(1, 2, 4), nn.Conv1d(2, 1, 3, bias=False)
        self.register_buffer("scale", torch.tensor(0.5))

    def forward(self, x: torch.Tensor, y: torch.Tensor | None = None) -> torch.Tensor:
        h = self.last(torch.relu(self.first(x))) * self.scale
        return torch.cumsum(h, -1)


def test_a_program_that_was_saved_and_loaded_gives_the_same_plan() -> None:
    x = randn(1, 1, 32)
    with torch.no_grad():
        program = torch.export.export(Convolved().eval(), (x,))
    file = io.BytesIO()
    torch.export.save(program, file)
    file.seek(0)
    again = torch.export.load(file)
    first, second = (api.plan(one, "xnnpack-fp32") for one in (program, again))
    assert first.delegations
    assert first.delegations == second.delegations
    assert first.fingerprint == second.fingerprint
    # A plan of one is followed by the other.
    result = api.lower(again, first)
    agree(result, [(x,)])


def test_a_loaded_program_keeps_its_bytes() -> None:
    from cede.host import Host
    from cede.running import load

    model, x = nn.Linear(256, 256).eval(), randn(2, 256)
    result = lowered(model, x)
    program = load(bytes(bytearray(result.buffer)), Host.load().backends)
    with torch.no_grad():
        wanted = model(x)
    for size in range(3):
        gc.collect()
        junk = [b"x" * (300_000 + i + size) for i in range(64)]
        assert torch.allclose(program.run([x])[0], wanted, atol=1e-4)
        del junk
