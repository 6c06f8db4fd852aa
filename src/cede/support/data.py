"""Data for probes: of the probed dtype where it is data, and always the same."""

from __future__ import annotations

import zlib
from dataclasses import dataclass
from enum import Enum
from typing import Any

import torch

ROWS = 4
"""Size of a dimension that becomes symbolic; the bounds are half and double."""


class Kind(Enum):
    """What an argument of a probe holds."""

    ANY = "any"
    POSITIVE = "positive"
    UNIT = "unit"
    ABOVE_ONE = "above one"
    DISTINCT = "distinct"
    HALVES = "halves"
    SPECIAL = "special"
    INDEX = "index"
    FLAG = "flag"


@dataclass(frozen=True, slots=True, kw_only=True)
class Data:
    """One tensor of a probe.

    Attributes:
        kind: what it holds; all but indices (int64) and flags (bool) have the probed dtype.
        shape: its sizes.
        high: indices are below it.
        held: whether it is a weight of the module instead of an input.
    """

    kind: Kind
    shape: tuple[int, ...]
    high: int = 0
    held: bool = False

    def make(self, dtype: torch.dtype, name: str, rows: int | None = None) -> torch.Tensor:
        """The values, the same for the same name.

        Args:
            dtype: the probed dtype.
            name: seeds the values.
            rows: size of the first dimension instead of that of `shape`.
        """
        shape = self.shape if rows is None else (rows, *self.shape[1:])
        generator = torch.Generator().manual_seed(zlib.crc32(name.encode()))
        if self.kind is Kind.INDEX:
            return torch.randint(0, self.high, shape, generator=generator)
        if self.kind is Kind.FLAG or dtype is torch.bool:
            return torch.randint(0, 2, shape, generator=generator).bool()
        if dtype.is_floating_point:
            return _floats(self.kind, shape, generator).to(dtype)
        return _integers(self.kind, shape, generator, dtype.is_signed).to(dtype)


def _floats(kind: Kind, shape: tuple[int, ...], generator: torch.Generator) -> torch.Tensor:
    if kind is Kind.POSITIVE:
        return torch.rand(shape, generator=generator) * 2 + 0.5
    if kind is Kind.UNIT:
        return torch.rand(shape, generator=generator) * 1.8 - 0.9
    if kind is Kind.ABOVE_ONE:
        return torch.rand(shape, generator=generator) * 2 + 1.1
    if kind is Kind.DISTINCT:
        return (_permuted(shape, generator) - 10) / 4
    if kind is Kind.HALVES:
        return torch.randint(-7, 8, shape, generator=generator) / 2
    values = torch.randn(shape, generator=generator)
    if kind is Kind.SPECIAL:
        values.view(-1)[:3] = torch.tensor([float("nan"), float("inf"), -float("inf")])
    return values


def _integers(
    kind: Kind, shape: tuple[int, ...], generator: torch.Generator, signed: bool
) -> torch.Tensor:
    if kind is Kind.DISTINCT:
        return _permuted(shape, generator) - (10 if signed else 0)
    low = 1 if kind in (Kind.POSITIVE, Kind.ABOVE_ONE) else -6 if signed else 0
    return torch.randint(low, 7, shape, generator=generator)


def _permuted(shape: tuple[int, ...], generator: torch.Generator) -> torch.Tensor:
    count = torch.Size(shape).numel()
    return torch.randperm(count, generator=generator).view(shape)


@dataclass(frozen=True, slots=True)
class Rows:
    """Stands for the size of the first dimension of the first data input, times a factor."""

    factor: int = 1


def F(*shape: int) -> Data:
    """Any numbers."""
    return Data(kind=Kind.ANY, shape=shape)


def P(*shape: int) -> Data:
    """Positive numbers."""
    return Data(kind=Kind.POSITIVE, shape=shape)


def U(*shape: int) -> Data:
    """Numbers between -1 and 1."""
    return Data(kind=Kind.UNIT, shape=shape)


def A(*shape: int) -> Data:
    """Numbers above 1."""
    return Data(kind=Kind.ABOVE_ONE, shape=shape)


def D(*shape: int) -> Data:
    """Distinct numbers: no ties."""
    return Data(kind=Kind.DISTINCT, shape=shape)


def H(*shape: int) -> Data:
    """Multiples of one half."""
    return Data(kind=Kind.HALVES, shape=shape)


def X(*shape: int) -> Data:
    """NaN, the infinities and any numbers."""
    return Data(kind=Kind.SPECIAL, shape=shape)


def I(high: int, *shape: int) -> Data:  # noqa: E743  (the table reads better with one letter)
    """Indices from 0 to below `high`."""
    return Data(kind=Kind.INDEX, shape=shape, high=high)


def B(*shape: int) -> Data:
    """Flags."""
    return Data(kind=Kind.FLAG, shape=shape)


def W(*shape: int) -> Data:
    """A weight: any numbers, held by the module."""
    return Data(kind=Kind.ANY, shape=shape, held=True)


def V(*shape: int) -> Data:
    """A weight of positive numbers, such as a variance."""
    return Data(kind=Kind.POSITIVE, shape=shape, held=True)


__all__ = [
    "A", "Any", "B", "D", "Data", "F", "H", "I", "Kind", "P", "ROWS", "Rows", "U", "V", "W", "X",
]  # fmt: skip
