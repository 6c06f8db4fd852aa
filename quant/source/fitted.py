"""Scales that are searched for, in place of those that the largest weight of a group gives.

The scale of a group decides how its weights are rounded. Taken from the largest magnitude none is
cut off, and all others are rounded coarsely. A somewhat smaller scale cuts the largest and rounds
the rest better; which one is best is found by trying, for each group by itself.

Sources: the idea to weigh errors of a weight by the mean square of the input that it multiplies is
that of llama.cpp's importance matrix and of AWQ (Lin et al. 2024); the refinement of a scale for
given integers is weighted least squares, as in llama.cpp's K-quants.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch

if TYPE_CHECKING:
    from torch import Tensor

STEPS = 24
"""How many scales are tried for a group, from 0.55 to 1.05 of what its largest weight asks for."""

_LEAST, _MOST = 0.55, 1.05
_REFINED = 2


def fitted(
    weight: Tensor, group: int, bits: int, dtype: torch.dtype, importance: Tensor | None = None
) -> tuple[Tensor, Tensor]:
    """Integers and scales of least weighted squared error, as far as the search finds it.

    Every group is tried with `STEPS` scales; the best is then refined for its integers by least
    squares. No group is worse than by its largest magnitude. In O(steps * weights), without a loop
    over groups.

    Args:
        weight: float32 [out, in].
        group: how many columns share a scale, a divisor of `in`; 0 is all of a row.
        bits: of the integers, in -2**(bits-1) .. 2**(bits-1)-1.
        dtype: in which scales are stored; they are rounded to it before the weights are.
        importance: of each column, [in], not negative: mean squared inputs. None weighs all alike.

    Returns:
        int8 [out, in], and float32 [out, in/group] that `dtype` holds exactly.
    """
    rows, columns = weight.shape
    width, half = group or columns, 2 ** (bits - 1)
    w = weight.reshape(rows, columns // width, width)
    by = torch.ones(columns) if importance is None else importance.to(torch.float32)
    by = by.reshape(1, columns // width, width)
    # A group whose inputs were all 0 counts like any other.
    by = torch.where(by.sum(-1, keepdim=True) > 0, by, torch.ones(()))
    top = w.abs().amax(-1, keepdim=True).clamp(min=torch.finfo(torch.float32).tiny * 2**24)

    def stored(scale: Tensor) -> Tensor:
        return scale.to(dtype).to(torch.float32)

    def rounded(scale: Tensor) -> Tensor:
        return (w / scale).round_().clamp_(-half, half - 1)

    def cost(scale: Tensor, data: Tensor) -> Tensor:
        return ((w - scale * data).square_() * by).sum(-1, keepdim=True)

    best = stored(top / (half - 0.5))  # torchao's own
    least = cost(best, rounded(best))

    def consider(scale: Tensor) -> None:
        nonlocal best, least
        found = cost(scale, rounded(scale))
        better = found < least
        best, least = torch.where(better, scale, best), torch.where(better, found, least)

    for part in torch.linspace(_LEAST, _MOST, STEPS).tolist():
        consider(stored(top / half * part))
    for _ in range(_REFINED):
        data = rounded(best)
        norm = (data.square() * by).sum(-1, keepdim=True)
        exact = (w * data * by).sum(-1, keepdim=True) / norm.clamp(min=1e-30)
        consider(stored(torch.where((norm > 0) & (exact > 0), exact, best)))
    return rounded(best).to(torch.int8).reshape(rows, columns), best.squeeze(-1)
