"""Borders of quantized values: what one side wrote in integers, and how the other side reads it."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING

from cede.types import Ref

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from cede.planning import Plan
    from cede.types import Argument, Delegation, Op, OpGraph

LEFT = "left"
"""In place of a delegate: ExecuTorch's own kernels."""


class Meeting(str, Enum):
    """How two sides of a border fit.

    agrees: integers cross it, or could, and both sides mean the same numbers by them.
    requantized: the value is rounded again, for the sides have other figures.
    disagrees: integers cross it, and are read by other figures than they were written by.
    half: one side computes in integers, the other in float.
    """

    AGREES = "agrees"
    REQUANTIZED = "requantized"
    DISAGREES = "disagrees"
    HALF = "half"


@dataclass(frozen=True, slots=True, kw_only=True)
class Figures:
    """By what a value is quantized.

    Attributes:
        dtype: of the integers.
        scale: a number, or the name of the value that holds it.
        zero_point: as `scale`.
        low: least integer.
        high: greatest integer.
        axis: of the channels, None for one scale in all.
        layout: order of the dimensions in memory, outermost first.
    """

    dtype: str
    scale: float | str
    zero_point: int | str
    low: int
    high: int
    axis: int | None
    layout: tuple[int, ...]

    def __str__(self) -> str:
        scale = self.scale if isinstance(self.scale, str) else f"{self.scale:.6g}"
        axis = "" if self.axis is None else f" axis {self.axis}"
        plain = self.layout == tuple(range(len(self.layout)))
        layout = "" if plain else f" layout {','.join(map(str, self.layout))}"
        return (
            f"{self.dtype} {self.low}..{self.high} scale {scale} zero point {self.zero_point}"
            f"{axis}{layout}"
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Border:
    """A value that one delegate gives and another, or a kernel, reads; a side is quantized.

    Attributes:
        op: id of the op that gives it.
        reader: id of the op that reads it.
        giver: the delegate's id and backend ("d0 quick"), or "left".
        taker: the same of the reader.
        meeting: how the sides fit.
        given: by what the giver quantized it, None where it is float.
        read: by what the reader does.
    """

    op: str
    reader: str
    giver: str
    taker: str
    meeting: Meeting
    given: Figures | None
    read: Figures | None

    @property
    def cells(self) -> tuple[str, ...]:
        """Value, both places, reader, how they fit, and both sides' figures."""
        sides = (str(self.given or "float"), str(self.read or "float"))
        return (self.op, self.giver, self.taker, self.reader, self.meeting.value, *sides)

    def __str__(self) -> str:
        return (
            f"{self.op} ({self.giver}: {self.given or 'float'}) to {self.reader}"
            f" ({self.taker}: {self.read or 'float'}) {self.meeting.value}"
        )


def borders(plan: Plan, graph: OpGraph) -> tuple[Border, ...]:
    """Every border between two delegates, or a delegate and an op that is left, that is quantized.

    Args:
        plan: who has which op.
        graph: the facts it was made from.
    """
    taken = plan.delegation_of()
    return tuple(_found(graph, taken))


def met(found: Sequence[Border]) -> str:
    """One line that counts borders by how their sides fit."""
    counts = Counter(border.meeting.value for border in found)
    told = ", ".join(f"{count} {name}" for name, count in sorted(counts.items()))
    return f"{len(found)} border{'s' * (len(found) != 1)} of quantized values: {told}"


def _found(graph: OpGraph, taken: dict[str, Delegation]) -> Iterator[Border]:
    for op in graph.ops:
        one, given = taken.get(op.id), figures(op)
        for user in graph.users(op.id):
            two, read = taken.get(user), figures(graph.op(user))
            # two ops that are left count where they quantize a value one after the other
            if one is two and (one is not None or given is None or read is None):
                continue
            if given is None and read is None:
                continue
            yield Border(
                op=op.id,
                reader=user,
                giver=_side(one),
                taker=_side(two),
                meeting=_meeting(op, graph.op(user), given, read),
                given=given,
                read=read,
            )


def _side(given: Delegation | None) -> str:
    return LEFT if given is None else f"{given.id} {given.backend}"


def _meeting(op: Op, user: Op, given: Figures | None, read: Figures | None) -> Meeting:
    if given is None or read is None:
        return Meeting.HALF
    if given == read:
        return Meeting.AGREES
    crosses = ".quantize" in op.target and "dequantize" in user.target
    return Meeting.DISAGREES if crosses else Meeting.REQUANTIZED


def figures(op: Op) -> Figures | None:
    """By what an op quantizes or dequantizes a value, None for other ops."""
    if not op.target.startswith(_TARGETS):
        return None
    args = dict(op.args)
    names = _PER_CHANNEL if "axis" in args else _PER_TENSOR
    scale, zero_point = (_number(args.get(name)) for name in names)
    low, high, axis = args.get("quant_min"), args.get("quant_max"), args.get("axis")
    return Figures(
        dtype=str(args.get("dtype")).removeprefix("torch."),
        scale=scale,
        zero_point=zero_point if isinstance(zero_point, str) else int(zero_point),
        low=low if isinstance(low, int) else 0,
        high=high if isinstance(high, int) else 0,
        axis=axis if isinstance(axis, int) else None,
        layout=op.outputs[0].dim_order,
    )


_TARGETS = ("quantized_decomposed.quantize_per", "quantized_decomposed.dequantize_per")
_PER_TENSOR, _PER_CHANNEL = ("scale", "zero_point"), ("scales", "zero_points")


def _number(value: Argument) -> float | str:
    if isinstance(value, Ref):
        return value.id
    return float(value) if isinstance(value, (int, float)) else str(value)
