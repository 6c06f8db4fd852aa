"""The modules of the bundled programs."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn

CUSTOM_OP = "cede_testing.shifted"
"""The custom operator, as a plan names its kind."""

_library: list[torch.library.Library] = []


def define_custom_op() -> None:
    """Register `cede_testing::shifted`, x -> 2 x + 1, with an out variant; once in a process."""
    if _library:
        return
    library: Any = torch.library.Library("cede_testing", "DEF")  # type: ignore[no-untyped-call]
    library.define("shifted(Tensor x) -> Tensor")
    library.define("shifted.out(Tensor x, *, Tensor(a!) out) -> Tensor(a!)")
    library.impl("shifted", lambda x: x * 2 + 1, "CompositeExplicitAutograd")

    def into(x: Tensor, *, out: Tensor) -> Tensor:
        return out.copy_(x * 2 + 1)

    library.impl("shifted.out", into, "CompositeExplicitAutograd")
    # the registration ends with the object
    _library.append(library)


class Attention(nn.Module):
    """(1, n, 16) -> (1, n, 16)."""

    def __init__(self) -> None:
        super().__init__()
        self.qkv, self.norm = nn.Linear(16, 48), nn.LayerNorm(16)

    def forward(self, x: Tensor) -> Tensor:
        """Two heads of 8, residual, norm."""
        parts = self.qkv(x).chunk(3, -1)
        q, k, v = (part.reshape(1, -1, 2, 8).transpose(1, 2) for part in parts)
        y = nn.functional.scaled_dot_product_attention(q, k, v)
        return self.norm(x + y.transpose(1, 2).reshape(x.shape))  # type: ignore[no-any-return]


class Branches(nn.Module):
    """A flag and (2, 4) -> (2, 4)."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = nn.Linear(4, 4), nn.Linear(4, 4)

    def forward(self, flag: Tensor, x: Tensor) -> Tensor:
        """One of two linears."""

        def yes(x: Tensor) -> Tensor:
            return torch.relu(self.first(x))

        def no(x: Tensor) -> Tensor:
            return self.second(x) - 1.0  # type: ignore[no-any-return]

        return torch.cond(flag, yes, no, (x,)) * 2  # type: ignore[no-any-return]


class Cache(nn.Module):
    """A row and its place -> the cache times the row."""

    rows: Tensor

    def __init__(self) -> None:
        super().__init__()
        self.line = nn.Linear(8, 8)
        self.register_buffer("rows", torch.full((4, 8), 2.0))

    def forward(self, x: Tensor, place: Tensor) -> Tensor:
        """Write one row, read all."""
        self.rows[place] = self.line(x)
        return torch.softmax(x @ self.rows.t(), -1) @ self.rows


class TwoOutputs(nn.Module):
    """(2, 8) -> (2, 4) and (2, 1)."""

    def __init__(self) -> None:
        super().__init__()
        self.line = nn.Linear(8, 4)

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """A hidden value, and its mean."""
        hidden = torch.tanh(self.line(x))
        return hidden, hidden.mean(1, keepdim=True)


class Integers(nn.Module):
    """Two int64 tensors -> an int64 tensor and a mask."""

    def forward(self, x: Tensor, y: Tensor) -> tuple[Tensor, Tensor]:
        """Sums, products, a comparison."""
        total = x * 3 + y
        return torch.where(total > y, total, -total).cumsum(1), total >= x


class Split(nn.Module):
    """(2, 9) -> (2, 3)."""

    def forward(self, x: Tensor) -> Tensor:
        """Three parts, one of them negated."""
        first, second, third = torch.split(x, 3, 1)
        return first * second - third


class TopK(nn.Module):
    """(2, 9) -> the 3 largest values, doubled, and their places."""

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """Values and places."""
        values, places = torch.topk(x, 3)
        return values * 2, places


class CustomOp(nn.Module):
    """(2, 8) -> (2, 8), with the custom operator between two that every backend knows."""

    def __init__(self) -> None:
        super().__init__()
        self.line = nn.Linear(8, 8)

    def forward(self, x: Tensor) -> Tensor:
        """Linear, custom, ReLU."""
        return torch.relu(torch.ops.cede_testing.shifted(self.line(x)))


class Tied(nn.Module):
    """Token ids -> logits."""

    def __init__(self) -> None:
        super().__init__()
        self.table, self.head = nn.Embedding(8, 4), nn.Linear(4, 8, bias=False)
        self.head.weight = self.table.weight

    def forward(self, ids: Tensor) -> Tensor:
        """Look up, and back."""
        return self.head(torch.relu(self.table(ids)))  # type: ignore[no-any-return]


class ReturnsParameter(nn.Module):
    """(2, 4) -> (2, 4) and the bias."""

    def __init__(self) -> None:
        super().__init__()
        self.line = nn.Linear(4, 4)

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """The product, and the bias as it is."""
        return self.line(x), self.line.bias


class Shapes(nn.Module):
    """(2, 3, 4) -> (4, 14)."""

    def forward(self, x: Tensor) -> Tensor:
        """Only moves values."""
        turned = x.permute(2, 0, 1).reshape(4, 6)
        joined = torch.cat([turned, turned.flip(1)], 1)
        return nn.functional.pad(joined, (1, 1))
