"""Custom operators of every form, and models around them."""

from __future__ import annotations

from collections.abc import Sequence  # noqa: TC003  (torch reads the annotations)

import torch
from torch import Tensor, nn

LIBRARY = torch.library.Library("cede_test", "DEF")
OPS = torch.ops.cede_test


@torch.library.custom_op("cede_test::wave", mutates_args=())
def wave(x: Tensor, k: float) -> tuple[Tensor, Tensor]:
    return torch.sin(x * k), torch.cos(x * k)


@wave.register_fake
def _(x: Tensor, k: float) -> tuple[Tensor, Tensor]:
    return torch.empty_like(x), torch.empty_like(x)


@torch.library.custom_op("cede_test::multiples", mutates_args=())
def multiples(x: Tensor, n: int) -> list[Tensor]:
    return [x * (i + 1) for i in range(n)]


@multiples.register_fake
def _(x: Tensor, n: int) -> list[Tensor]:
    return [torch.empty_like(x) for _ in range(n)]


@torch.library.custom_op("cede_test::join", mutates_args=())
def join(
    xs: Sequence[Tensor], mode: str, at: Sequence[int] | None = None, bias: Tensor | None = None
) -> Tensor:
    total = torch.stack(list(xs)).sum(0) * (-1 if mode == "minus" else 1)
    return total * sum(at or (1,)) + (0 if bias is None else bias)


@join.register_fake
def _(
    xs: Sequence[Tensor], mode: str, at: Sequence[int] | None = None, bias: Tensor | None = None
) -> Tensor:
    return torch.empty_like(xs[0])


@torch.library.custom_op("cede_test::scale_", mutates_args=("x",))
def scale_(x: Tensor, k: float) -> None:
    x.mul_(k)


@torch.library.custom_op("cede_test::push", mutates_args=("total",))
def push(total: Tensor, x: Tensor) -> Tensor:
    total.add_(x.sum(0))
    return total * 2 + x


@push.register_fake
def _(total: Tensor, x: Tensor) -> Tensor:
    return torch.empty_like(x)


LIBRARY.define("composite(Tensor x, float k) -> Tensor")
LIBRARY.impl("composite", lambda x, k: torch.tanh(x) * k, "CompositeImplicitAutograd")

LIBRARY.define("known(Tensor x) -> (Tensor, Tensor)")
LIBRARY.impl("known", lambda x: (x.exp(), x.neg()), "CompositeExplicitAutograd")


@torch._decomp.register_decomposition(OPS.known.default)
def _known(x: Tensor) -> tuple[Tensor, Tensor]:
    return x.exp(), x.neg()


LIBRARY.define("plus(Tensor x) -> Tensor")
LIBRARY.define("plus.out(Tensor x, *, Tensor(a!) out) -> Tensor(a!)")
LIBRARY.impl("plus", lambda x: x + 1, "CompositeExplicitAutograd")
LIBRARY.impl("plus.out", lambda x, *, out: out.copy_(x + 1), "CompositeExplicitAutograd")

LIBRARY.define("count(Tensor x, Tensor(a!) seen) -> Tensor")
LIBRARY.define("count.out(Tensor x, Tensor(a!) seen, *, Tensor(b!) out) -> Tensor(b!)")


def _count(x: Tensor, seen: Tensor) -> Tensor:
    seen.add_(1)
    return x * seen


LIBRARY.impl("count", _count, "CompositeExplicitAutograd")
LIBRARY.impl(
    "count.out", lambda x, seen, *, out: out.copy_(_count(x, seen)), "CompositeExplicitAutograd"
)
torch.library.register_fake("cede_test::count", lambda x, seen: torch.empty_like(x))


class Around(nn.Module):
    """A linear before and one after."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.a, self.b = nn.Linear(4, 4), nn.Linear(4, 4)

    def forward(self, x: Tensor) -> Tensor:
        return self.b(self.middle(self.a(x)))

    def middle(self, x: Tensor) -> Tensor:
        raise NotImplementedError


class TwoOutputs(Around):
    def middle(self, x: Tensor) -> Tensor:
        sine, cosine = OPS.wave(x, 2.0)
        return sine + cosine


class OneUnused(Around):
    def middle(self, x: Tensor) -> Tensor:
        return OPS.wave(x, 2.0)[1]


class AList(Around):
    def middle(self, x: Tensor) -> Tensor:
        found = OPS.multiples(x, 3)
        return found[0] + found[2]


class Arguments(Around):
    def middle(self, x: Tensor) -> Tensor:
        y = OPS.join([x, x + 1], "minus", [1, 2], None)
        return y + OPS.join([y], "plus", None, x)


class InPlace(Around):
    def middle(self, x: Tensor) -> Tensor:
        OPS.scale_(x, 3.0)
        return x


class WrittenInput(Around):
    def forward(self, x: Tensor) -> Tensor:
        OPS.scale_(x, 3.0)
        return self.b(x)


class Buffer(Around):
    """Returns a value and writes a buffer that is read again."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("total", torch.ones(4))

    def middle(self, x: Tensor) -> Tensor:
        return OPS.push(self.total, x) + self.total


class View(Around):
    """Writes one row of a buffer."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("rows", torch.ones(3, 4))

    def middle(self, x: Tensor) -> Tensor:
        OPS.scale_(self.rows[1], 3.0)
        return x + self.rows.sum(0)


class Branch(Around):
    def forward(self, flag: Tensor, x: Tensor) -> Tensor:
        return self.b(
            torch.cond(
                flag, lambda x: OPS.wave(self.a(x), 2.0)[0], lambda x: OPS.multiples(x, 2)[1], (x,)
            )
        )


class Composite(Around):
    def middle(self, x: Tensor) -> Tensor:
        return OPS.composite(x, 2.0)


class Known(Around):
    def middle(self, x: Tensor) -> Tensor:
        first, second = OPS.known(x)
        return first + OPS.known(second)[1]


class OutVariant(Around):
    def middle(self, x: Tensor) -> Tensor:
        return OPS.plus(x)


class WritingOutVariant(Around):
    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("seen", torch.zeros(1))

    def middle(self, x: Tensor) -> Tensor:
        return OPS.count(x, self.seen)
