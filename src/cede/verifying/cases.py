"""Calls that a program is verified on: the given ones, other sizes, and extreme values."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import torch
from torch.utils import _pytree as pytree

from cede.types import Inputs

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from torch.export import ExportedProgram

MOST = 1 << 28
"""Inputs of more bytes than that are not made: an upper bound may be none in earnest."""

LARGE = 1000.0

CALLS, SIZES, VALUES = "calls", "sizes", "values"


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """Calls in a row, state living from one to the next, on a program that was just loaded.

    Attributes:
        name: "calls", "s0=2", "NaN".
        kind: `CALLS`, `SIZES` or `VALUES`.
        calls: what it is called with.
    """

    name: str
    kind: str
    calls: tuple[Inputs, ...]


def cases_for(
    program: ExportedProgram, calls: Sequence[Inputs]
) -> tuple[tuple[Case, ...], list[str]]:
    """What to verify a program on.

    Args:
        program: from `torch.export.export`.
        calls: those of the caller; the first one is varied.

    Returns:
        The cases, and a sentence for each that could not be made.
    """
    # A single call is repeated, so that state is seen.
    given = Case(name="calls", kind=CALLS, calls=tuple(calls) if len(calls) > 1 else (*calls,) * 3)
    notes: list[str] = []
    sizes = tuple(_sized(program, calls[0], notes))
    values = tuple(_extreme(calls[0]))
    if not values:
        notes.append("no input holds floating-point numbers, so none is made NaN or extreme")
    return (given, *sizes, *values), notes


def _sized(program: ExportedProgram, call: Inputs, notes: list[str]) -> Iterator[Case]:
    """All symbolic sizes at their lower bounds, halfway, and at their upper bounds."""
    bounds = {str(key): given for key, given in program.range_constraints.items()}
    fakes = {n.name: n.meta.get("val") for n in program.graph.nodes if n.op == "placeholder"}
    inputs = [fakes.get(str(name)) for name in program.graph_signature.user_inputs]
    symbols = {str(s) for value in inputs for s in _symbols(value)} & bounds.keys()
    if not symbols:
        return
    done: list[dict[str, int]] = []
    for share in (0.0, 0.5, 1.0):
        sizes = {name: _between(bounds[name], share) for name in sorted(symbols)}
        if sizes in done:
            continue
        done.append(sizes)
        named = ", ".join(f"{name}={size}" for name, size in sizes.items())
        leaves, spec = pytree.tree_flatten((call.args, dict(call.kwargs)))
        if (made := _resized(leaves, inputs, sizes)) is None:
            notes.append(f"{named} is not tried: an input would take more than {MOST >> 20} MiB")
            continue
        args, kwargs = pytree.tree_unflatten(made, spec)
        yield Case(name=named, kind=SIZES, calls=(Inputs(args=args, kwargs=kwargs),) * 2)


def _symbols(value: Any) -> set[Any]:
    if not isinstance(value, torch.Tensor):
        return set()
    sizes: list[Any] = [size for size in value.shape if isinstance(size, torch.SymInt)]
    return {symbol for size in sizes for symbol in size.node.expr.free_symbols}


def _between(bounds: Any, share: float) -> int:
    low = max(int(bounds.lower), 1)
    # torch's infinity is no number of Python's, and larger than any size.
    high = int(bounds.upper) if bounds.upper < 2**31 else 4 * low + 64
    return low + round((high - low) * share)


def _resized(leaves: list[Any], fakes: list[Any], sizes: Mapping[str, int]) -> list[Any] | None:
    made = []
    for leaf, fake in zip(leaves, fakes, strict=True):
        if not _symbols(fake):
            made.append(leaf)
            continue
        shape = [_size(size, sizes) for size in fake.shape]
        count = leaf.element_size()
        for size in shape:
            count *= size
        if count > MOST:
            return None
        made.append(_tiled(leaf, shape))
    return made


def _size(size: Any, sizes: Mapping[str, int]) -> int:
    if not isinstance(size, torch.SymInt):
        return int(size)
    expression = size.node.expr
    return int(expression.subs({s: sizes[str(s)] for s in expression.free_symbols}))


def _tiled(value: torch.Tensor, shape: list[int]) -> torch.Tensor:
    """The example's own numbers, repeated or cut: they are valid where random ones may not be."""
    for dim, size in enumerate(shape):
        have = value.shape[dim]
        places = torch.arange(size, device=value.device) % max(have, 1)
        value = value.index_select(dim, places)
    return value


def _extreme(call: Inputs) -> Iterator[Case]:
    """The example with its floating-point inputs all zero, large, or with one odd number."""
    changes: dict[str, Callable[[torch.Tensor], torch.Tensor]] = {
        "zeros": torch.zeros_like,
        f"times {LARGE:g}": lambda value: value * LARGE,
        "NaN": lambda value: _with(value, float("nan")),
        "infinity": lambda value: _with(value, float("inf")),
    }
    leaves, spec = pytree.tree_flatten((call.args, dict(call.kwargs)))
    floats = [isinstance(v, torch.Tensor) and v.is_floating_point() for v in leaves]
    if not any(floats):
        return
    for name, change in changes.items():
        made = [change(v) if real else v for v, real in zip(leaves, floats, strict=True)]
        args, kwargs = pytree.tree_unflatten(made, spec)
        yield Case(name=name, kind=VALUES, calls=(Inputs(args=args, kwargs=kwargs),))


def _with(value: torch.Tensor, number: float) -> torch.Tensor:
    made = value.clone()
    if made.numel():
        made[(0,) * made.dim()] = number
    return made
