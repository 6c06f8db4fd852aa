"""Means and rotations as matrix products, for backends that take products of any number of tokens.

The mean of RMSNorm is a product with a row of 1/n. The turn of a rotary embedding, which puts -b, a
for a, b, is a product with a matrix of 0, 1 and -1, exact in float32. Its tables are as wide as a
head then; they are stored with each angle once, and widened once a call. Nothing is sliced or taken
apart: a layer has no op there that such a backend refuses.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch
from torch import nn
from torch.nn import functional

from cede.llm.upstream import norms, rotary

if TYPE_CHECKING:
    from torch import Tensor
    from torch.export import ExportedProgram


class ProductNorm(nn.Module):
    """RMSNorm of the last dimension.

    Attributes:
        eps: added to the mean of squares.
        weight: float [size], or None.
        mean: float [1, size], all 1 / size.
    """

    def __init__(self, size: int, eps: float, weight: Tensor | None) -> None:
        super().__init__()
        self.eps, self.weight = eps, weight
        self.register_buffer("mean", torch.full((1, size), 1 / size), persistent=False)

    def forward(self, x: Tensor) -> Tensor:
        """Of float [..., size]."""
        made = x * torch.rsqrt(functional.linear(x * x, self.get_buffer("mean")) + self.eps)
        return made if self.weight is None else made * self.weight


class ProductRotation(nn.Module):
    """The rotary embedding of q and k.

    Attributes:
        turn: float [size, size].
    """

    def __init__(self, size: int, rotated: int, *, halves: bool) -> None:
        """For heads of a size.

        Args:
            size: of a head.
            rotated: how many of its values, the first ones, are rotated.
            halves: value i belongs with value i + rotated / 2; otherwise neighbours do.
        """
        super().__init__()
        first = torch.arange(rotated // 2) * (1 if halves else 2)
        second = first + (rotated // 2 if halves else 1)
        turn = torch.zeros(size, size)
        turn[first, second], turn[second, first] = -1.0, 1.0
        self.register_buffer("turn", turn, persistent=False)

    def forward(self, q: Tensor, k: Tensor, cos: Tensor, sin: Tensor) -> tuple[Tensor, Tensor]:
        """Of float [1, tokens, heads, size], tables [1, tokens, 1 or heads, size]."""
        turn = self.get_buffer("turn")
        q, k = (x * cos + functional.linear(x, turn) * sin for x in (q, k))
        return q, k


class ProductTables(nn.Module):
    """Tables of the rotary embedding as wide as a head, from those with each angle once.

    Attributes:
        spread: float [size, rotated / 2], of 0 and 1.
        rest: float [size], 1 for the values that are not rotated, else 0.
    """

    def __init__(self, size: int, rotated: int, *, halves: bool) -> None:
        """As `ProductRotation`."""
        super().__init__()
        angles = torch.arange(rotated // 2)
        angle = angles.repeat(2) if halves else angles.repeat_interleave(2)
        spread = functional.pad(functional.one_hot(angle).float(), (0, 0, 0, size - rotated))
        rest = functional.pad(torch.zeros(rotated), (0, size - rotated), value=1.0)
        self.register_buffer("spread", spread, persistent=False)
        self.register_buffer("rest", rest, persistent=False)

    def forward(self, cos: Tensor, sin: Tensor) -> tuple[Tensor, Tensor]:
        """Of float [tokens, rotated / 2], float [1, tokens, 1, size]; of one a head as many."""
        spread = self.get_buffer("spread")
        one = (1, cos.shape[0], -1, spread.shape[1])
        # copies: a view that begins at a size of data is no input that partitioners take
        cos, sin = (table.view(one).clone() for table in (cos, sin))
        return (
            functional.linear(cos, spread, self.get_buffer("rest")),
            functional.linear(sin, spread),
        )


def as_products(model: nn.Module) -> nn.Module:
    """The transformer of ExecuTorch, changed in place: its norms and rotations are products."""
    for parent, name, inner in norms(model):
        weight: Any = getattr(inner, "weight", None)
        if getattr(inner, "add_unit_offset", False):
            weight = nn.Parameter(weight + 1.0, requires_grad=False)
        setattr(parent, name, ProductNorm(inner.dim, inner.eps, weight))
    for rope in rotary(model):
        _rotate(rope)
    return model


def _rotate(rope: Any) -> None:
    size, halves = rope.params.head_dim, bool(rope.params.use_hf_rope)
    rotated = rope.get_buffer("freqs_cos").shape[-1] * (1 if halves else 2)
    for name in ("freqs_cos", "freqs_sin"):
        table = rope.get_buffer(name)[..., : rotated // 2]  # halves are alike
        rope.register_buffer(name, table.contiguous(), persistent=False)
    rope.wide = ProductTables(size, rotated, halves=halves)
    rope.apply_rotary_emb = ProductRotation(size, rotated, halves=halves)
    narrow = rope.get_freqs
    rope.get_freqs = lambda position, tokens: rope.wide(*narrow(position, tokens))


def with_inferred_sizes(program: ExportedProgram) -> ExportedProgram:
    """The program, changed in place: a view with one size that varies leaves it to be inferred."""
    for node in program.graph.nodes:
        if node.target is not torch.ops.aten.view.default:
            continue
        sizes = [size if isinstance(size, int) else -1 for size in node.args[1]]
        if sizes.count(-1) == 1:
            node.update_arg(1, sizes)
    program.graph.eliminate_dead_code()
    program.graph_module.recompile()
    return program
