"""Why cost mode left a claim out, with the seconds on both sides."""

from __future__ import annotations

from typing import TYPE_CHECKING

from cede.costs import seconds
from cede.settle.cost_climb import regions
from cede.settle.cost_standing import BARRED
from cede.types import Code, Reason

if TYPE_CHECKING:
    from cede.settle.cost_field import Field
    from cede.settle.cost_standing import Standing


def explained(field: Field, best: Standing) -> dict[int, Reason]:
    """Pieces that left, with the reasons that rounds gave or that costs give now."""
    out = dict(best.out)
    barred = [number for number, reason in out.items() if reason is BARRED]
    if not barred:
        return out
    islands: dict[int, dict[int, Reason]] = {}
    for number in sorted(barred):
        taker, core = field.taker[number], field.pieces[number].core
        if all(best.labels[op] == taker for op in core):
            del out[number]  # its ops are taken, by claims of fewer ops
            continue
        rival = next((op for op in core if best.labels[op] not in (-1, taker)), None)
        if rival is not None:
            out[number] = _outbid(field, best, core, taker, best.labels[rival])
            continue
        if taker not in islands:
            islands[taker] = _islands(field, best, taker)
        out[number] = islands[taker][next(op for op in core if op in islands[taker])]
    return out


def _islands(field: Field, best: Standing, taker: int) -> dict[int, Reason]:
    """For each op that a taker could have and the fallback has, what its island would cost."""
    open_ops = [op for op in field.cover[taker] if best.labels[op] < 0]
    found: dict[int, Reason] = {}
    fallback = field.model.compute("")
    for island in regions(field, open_ops):
        compute = sum(field.seconds[taker][op] - fallback[op] for op in island)
        more = _border(field, best, island, taker) - _border(field, best, island, -1)
        joins = _joins(field, best, island, taker)
        more += 0.0 if joins else field.launch(taker)
        reason = Reason(
            code=Code.TOO_SMALL,
            detail=f"as a part of {field.takers[taker][0]} it {_gain(-compute)} of compute"
            f" and {_price(more)} of border{'' if joins else ' and launch'}"
            f"{_several(island)}",
        )
        found.update(dict.fromkeys(island, reason))
    return found


def _several(island: list[int]) -> str:
    return f" ({len(island)} ops that hang together)" if len(island) > 1 else ""


def _gain(value: float) -> str:
    return f"saves {seconds(value)}" if value >= 0 else f"loses {seconds(-value)}"


def _price(value: float) -> str:
    return f"costs {seconds(value)}" if value >= 0 else f"saves {seconds(-value)}"


def _outbid(
    field: Field,
    best: Standing,
    core: tuple[int, ...],
    taker: int,
    winner: int,
) -> Reason:
    sides = []
    for label in (winner, taker):
        compute = sum(field.seconds[label][op] for op in core)
        border = _border(field, best, core, label)
        launch = field.launch(label) * (not _joins(field, best, core, label))
        sides.append(
            f"{field.takers[label][0]} {seconds(compute + border + launch)}"
            f" ({seconds(compute)} of compute, {seconds(border + launch)} of border and launch)"
        )
    return Reason(code=Code.OUTBID, detail=f"costs decide: {sides[0]}, {sides[1]}")


def _border(
    field: Field,
    best: Standing,
    ops: list[int] | tuple[int, ...],
    taker: int,
) -> float:
    """Seconds that the values around these ops cost at borders if a taker had them."""
    moved = set(ops)
    found = 0.0
    for number in dict.fromkeys(number for op in ops for number in field.touching[op]):
        maker, readers = field.ends[number]
        home = taker if maker in moved else best.labels[maker] if maker >= 0 else -1
        others = {taker if reader in moved else best.labels[reader] for reader in readers}
        others.discard(home)
        if home >= 0 and (others or field.leaving[number]):
            found += field.prices[home][number]
        found += sum(field.prices[other][number] for other in others if other >= 0)
    return found


def _joins(
    field: Field,
    best: Standing,
    ops: list[int] | tuple[int, ...],
    taker: int,
) -> bool:
    """Whether one of these ops passes something to or from another op of that taker."""
    moved = set(ops)
    return any(
        end not in moved and end >= 0 and best.labels[end] == taker
        for op in ops
        for number in field.touching[op]
        for end in (field.ends[number][0], *field.ends[number][1])
    )
