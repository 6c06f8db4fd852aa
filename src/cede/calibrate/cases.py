"""What is measured: programs of one op in three sizes and two dtypes, and tiny ones for borders."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import torch

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

SIZES = ("small", "medium", "large")
COUNTS = {"small": 2**10, "medium": 2**16, "large": 2**18}
"""Elements of what element-wise ops and reductions get; their rows have `ROW` of them."""

DTYPES = (torch.float32, torch.float16)

CASES = 36 * len(DTYPES) + 34
"""How many `single_ops` gives."""

ROW = 64
BETWEEN = "aten.neg"
"""The op that stands between two delegates."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """One small program.

    Attributes:
        name: such as "linear large float32".
        module: in eval mode.
        args: its inputs.
    """

    name: str
    module: torch.nn.Module
    args: tuple[torch.Tensor, ...]


class _Call(torch.nn.Module):
    def __init__(self, function: Callable[..., Any]) -> None:
        super().__init__()
        self.function = function

    def forward(self, *args: torch.Tensor) -> Any:
        return self.function(*args)


class _Addmm(torch.nn.Module):
    def __init__(self, inner: int, outer: int) -> None:
        super().__init__()
        self.weight = torch.nn.Parameter(torch.randn(inner, outer))
        self.bias = torch.nn.Parameter(torch.randn(outer))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.addmm(self.bias, x, self.weight)


def single_ops() -> Iterator[Case]:
    """Programs of one op each, first all in float32; then further kinds in two sizes of it."""
    for dtype in DTYPES:
        for case in _of_float32():
            yield Case(
                name=f"{case.name} {str(dtype).removeprefix('torch.')}",
                module=case.module.to(dtype),
                args=tuple(given.to(dtype) for given in case.args),
            )
    yield from _further()


def _of_float32() -> Iterator[Case]:
    for size, rows, width in zip(SIZES, (4, 32, 32), (64, 256, 512), strict=True):
        x = torch.randn(rows, width)
        yield _case("linear", size, torch.nn.Linear(width, width), x)
        yield _case("addmm", size, _Addmm(width, width), x)
    for size, channels, side in zip(SIZES, (8, 16, 32), (12, 24, 40), strict=True):
        conv = torch.nn.Conv2d(channels, channels, 3, padding=1)
        yield _case("conv2d", size, conv, torch.randn(1, channels, side, side))
    for size, batch, side in zip(SIZES, (2, 4, 4), (16, 64, 128), strict=True):
        one, other = torch.randn(batch, side, side), torch.randn(batch, side, side)
        yield _case("bmm", size, _Call(torch.bmm), one, other)
    for size, count in COUNTS.items():
        x, y = torch.randn(count // ROW, ROW), torch.randn(count // ROW, ROW)
        yield _case("add", size, _Call(torch.add), x, y)
        yield _case("mul", size, _Call(torch.mul), x, y)
        yield _case("relu", size, torch.nn.ReLU(), x)
        yield _case("sigmoid", size, torch.nn.Sigmoid(), x)
        yield _case("softmax", size, torch.nn.Softmax(-1), x)
        yield _case("layer_norm", size, torch.nn.LayerNorm(ROW), x)
        yield _case("mean", size, _Call(lambda x: x.mean(-1, keepdim=True)), x)
        yield _case("permute", size, _Call(lambda x: x.permute(1, 0).contiguous()), x)


def _further() -> Iterator[Case]:
    """What models have between their products, and kernels of which some are slow."""
    for size in ("small", "large"):
        rows = COUNTS[size] // ROW
        x, y = torch.rand(rows, ROW) + 0.5, torch.rand(rows, ROW) + 0.5
        chosen = torch.arange(rows) % 7
        unary: dict[str, Callable[..., Any]] = {
            "pow": lambda x: x.pow(2.0), "rsqrt": torch.rsqrt, "sqrt": torch.sqrt,
            "exp": torch.exp, "tanh": torch.tanh, "gelu": torch.nn.functional.gelu,
            "neg": torch.neg, "cumsum": lambda x: x.cumsum(-1), "sum": lambda x: x.sum(-1),
            "slice": lambda x: x[:, ROW // 2 :] + 0.0, "eq": lambda x: x == 1.0,
            "expand": lambda x: x[:, :1].expand(x.shape).clone(),
        }  # fmt: skip
        for name, function in unary.items():
            yield _case(name, f"{size} float32", _Call(function), x)
        yield _case("div", f"{size} float32", _Call(torch.div), x, y)
        yield _case("sub", f"{size} float32", _Call(torch.sub), x, y)
        cat = _Call(lambda x, y: torch.cat((x, y), -1))
        yield _case("cat", f"{size} float32", cat, x, y)
        yield _case("where", f"{size} float32", _Call(torch.where), x > 1.0, x, y)
        yield _case("embedding", f"{size} float32", torch.nn.Embedding(8, ROW), chosen)


def _case(name: str, size: str, module: torch.nn.Module, *args: torch.Tensor) -> Case:
    return Case(name=f"{name} {size}", module=module.eval(), args=args)


def products(count: int, values: int = 1, size: int = 1) -> Case:
    """A chain of multiplications of ones, in one delegate.

    Args:
        count: how many multiplications.
        values: how many inputs they go round.
        size: elements of each input.
    """

    def multiply(*args: torch.Tensor) -> torch.Tensor:
        x = args[0]
        for i in range(count):
            x = x * args[(i + 1) % len(args)]
        return x

    args = tuple(torch.ones(size) for _ in range(values))
    return Case(name=f"{count} products", module=_Call(multiply).eval(), args=args)


def interrupted(count: int, size: int = 1) -> Case:
    """Multiplications of ones with `BETWEEN` between two of them."""

    def alternate(x: torch.Tensor) -> torch.Tensor:
        x = x * x
        for _ in range(count - 1):
            x = torch.neg(x)
            x = x * x
        return x

    return Case(name=f"{count} delegates", module=_Call(alternate).eval(), args=(torch.ones(size),))


def negations(count: int, size: int = 1) -> Case:
    """A chain of `BETWEEN`."""

    def negate(x: torch.Tensor) -> torch.Tensor:
        for _ in range(count):
            x = torch.neg(x)
        return x

    return Case(name=f"{count} negations", module=_Call(negate).eval(), args=(torch.ones(size),))
