"""Scales that are searched for, in place of those that the largest weight of a group gives.

The scale of a group decides how its weights are rounded. Taken from the largest magnitude none is
cut off, and all others are rounded coarsely. A somewhat smaller scale cuts the largest and rounds
the rest better; which one is best is found by trying, for each group by itself.

Sources: the idea to weigh errors of a weight by the mean square of the input that it multiplies is
that of llama.cpp's importance matrix and of AWQ (Lin et al. 2024); the refinement of a scale for
given integers is weighted least squares, as in llama.cpp's K-quants.
"""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING

import torch

if TYPE_CHECKING:
    from collections.abc import Iterator

    from torch import Tensor

STEPS = 24
"""How many scales are tried for a group, from 0.55 to 1.05 of what its largest weight asks for."""

_LEAST, _MOST = 0.55, 1.05
_REFINED = 2
_PART = 1 << 15
"""So many weights are searched at a time: what is made of them stays in the processor's cache."""


def fitted(
    weight: Tensor, group: int, bits: int, dtype: torch.dtype, importance: Tensor | None = None
) -> tuple[Tensor, Tensor]:
    """Integers and scales of least weighted squared error, as far as the search finds it.

    Every group is tried with `STEPS` scales; the best is then refined for its integers by least
    squares. No group is worse than by its largest magnitude. In O(steps * weights), some rows
    at a time.

    Args:
        weight: float32 [out, in].
        group: how many columns share a scale, a divisor of `in`; 0 is all of a row.
        bits: of the integers, in -2**(bits-1) .. 2**(bits-1)-1.
        dtype: in which scales are stored; they are rounded to it before the weights are.
        importance: of each column, [in], not negative: mean squared inputs. None weighs all alike.

    Returns:
        int8 [out, in], and float32 [out, in/group] that `dtype` holds exactly.
    """
    columns = weight.shape[1]
    by = torch.ones(columns) if importance is None else importance.to(torch.float32)
    with _one_thread():
        found = [
            _searched(rows, group or columns, by, 2 ** (bits - 1), dtype)
            for rows in torch.split(weight, max(1, _PART // columns))
        ]
    return torch.cat([data for data, _ in found]), torch.cat([scale for _, scale in found])


@contextmanager
def _one_thread() -> Iterator[None]:
    """Several would wait for each other longer than they compute, on parts this small."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(before)


def _searched(
    weight: Tensor, width: int, by: Tensor, half: int, dtype: torch.dtype
) -> tuple[Tensor, Tensor]:
    rows, columns = weight.shape
    search = _Search(
        weight.reshape(rows, columns // width, width),
        by.reshape(1, columns // width, width),
        half,
        dtype,
    )
    for part in torch.linspace(_LEAST, _MOST, STEPS).tolist():
        search.consider(search.top / half * part)
    for _ in range(_REFINED):
        search.refine()
    return search.rounded().to(torch.int8).reshape(rows, columns), search.scale.squeeze(-1)


class _Search:
    """The best scale of each group so far.

    Attributes:
        top: the largest magnitude of each group.
        scale: as it is stored; at first torchao's own.
    """

    def __init__(self, weight: Tensor, by: Tensor, half: int, dtype: torch.dtype) -> None:
        self._weight, self._half, self._dtype = weight, half, dtype
        # A group whose inputs were all 0 counts like any other.
        self._by = torch.where(by.sum(-1, keepdim=True) > 0, by, torch.ones(()))
        least = torch.finfo(torch.float32).tiny * 2**24
        self.top = weight.abs().amax(-1, keepdim=True).clamp(min=least)
        self.scale = self._stored(self.top / (half - 0.5))
        self._cost = self._cost_of(self.scale)

    def _stored(self, scale: Tensor) -> Tensor:
        return scale.to(self._dtype).to(torch.float32)

    def rounded(self, scale: Tensor | None = None) -> Tensor:
        """The integers that a scale makes of the weights, in float32."""
        divided = self._weight / (self.scale if scale is None else scale)
        return divided.round_().clamp_(-self._half, self._half - 1)

    def _cost_of(self, scale: Tensor) -> Tensor:
        off = (self._weight - scale * self.rounded(scale)).square_()
        return (off * self._by).sum(-1, keepdim=True)

    def consider(self, scale: Tensor) -> None:
        """Take it for the groups where it costs less."""
        scale = self._stored(scale)
        found = self._cost_of(scale)
        better = found < self._cost
        self.scale = torch.where(better, scale, self.scale)
        self._cost = torch.where(better, found, self._cost)

    def refine(self) -> None:
        """The scale of least squares for the integers that there are."""
        data = self.rounded()
        norm = (data.square() * self._by).sum(-1, keepdim=True)
        exact = (self._weight * data * self._by).sum(-1, keepdim=True) / norm.clamp(min=1e-30)
        self.consider(torch.where((norm > 0) & (exact > 0), exact, self.scale))
