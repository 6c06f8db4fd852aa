"""Many samples as one program: exported once, and taken apart again by its outputs."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache, lru_cache
from typing import TYPE_CHECKING, Any

import torch

from cede.errors import CedeError
from cede.support.core_ops import core_ops
from cede.support.data import ROWS
from cede.support.functions import functions

if TYPE_CHECKING:
    from collections.abc import Sequence

    from torch.export import ExportedProgram

    from cede.support.sample import Sample
    from cede.types import Op, OpGraph

SIZES = (ROWS, ROWS // 2, 2 * ROWS)
"""What a symbolic dimension is called with: the exported size first, then both bounds."""


REJECTED = "torch.export: "


class NotExported(CedeError):
    """`torch.export` rejects one of the samples; its text begins with `REJECTED`."""


@cache
def samples() -> dict[str, Sample]:
    """Every row of the matrix, by name."""
    return {sample.name: sample for sample in (*core_ops(), *functions())}


@dataclass(frozen=True, slots=True, kw_only=True)
class Group:
    """Samples of one dtype in one program.

    Attributes:
        names: the samples in the program, in order.
        rejected: those that eager rejects, with its reason; they are not in the program.
        program: from `torch.export`; None where nothing is left.
        counts: how many outputs each sample has.
        symbolic: for each sample whether each input's first dimension is symbolic.
    """

    names: tuple[str, ...]
    rejected: dict[str, str]
    program: ExportedProgram | None
    counts: tuple[int, ...]
    symbolic: tuple[tuple[bool, ...], ...]

    def inputs(self, dtype: torch.dtype, size: int) -> list[list[torch.Tensor]]:
        """Inputs of each sample, with that size for each symbolic dimension."""
        return [
            list(samples()[name].inputs(dtype, [size if one else None for one in symbolic]))
            for name, symbolic in zip(self.names, self.symbolic, strict=True)
        ]

    def parts(self, graph: OpGraph) -> list[list[Op]]:
        """The ops that each sample became: those that its outputs depend on."""
        if len(graph.outputs) != sum(self.counts):
            raise CedeError(f"{len(graph.outputs)} outputs instead of {sum(self.counts)}")
        found, start = [], 0
        for count in self.counts:
            needed = set()
            waiting = [*graph.outputs[start : start + count]]
            while waiting:
                id = waiting.pop()
                if id in graph and id not in needed:
                    needed.add(id)
                    waiting.extend(graph.op(id).inputs)
            found.append([graph.op(id) for id in sorted(needed, key=graph.position)])
            start += count
        return found


class Joint(torch.nn.Module):
    """Samples side by side, each with its own inputs."""

    def __init__(self, names: Sequence[str], dtype: torch.dtype) -> None:
        super().__init__()
        self.rows = torch.nn.ModuleList(samples()[name].module(dtype) for name in names)

    def forward(self, inputs: list[list[torch.Tensor]]) -> list[list[torch.Tensor]]:
        """The outputs of each sample."""
        return [row(*given) for row, given in zip(self.rows, inputs, strict=True)]


@lru_cache(maxsize=2)
def group(names: tuple[str, ...], dtype: str, dynamic: bool) -> Group:
    """Export samples together.

    Raises:
        NotExported: `torch.export` rejects them.
    """
    kind: torch.dtype = getattr(torch, dtype)
    counts, rejected = {}, {}
    for name in names:
        sample = samples()[name]
        try:
            with torch.no_grad():
                counts[name] = len(sample.module(kind)(*sample.inputs(kind)))
        except Exception as error:  # whatever an operator says about a dtype
            rejected[name] = first_line(error)
    left = tuple(counts)
    if not left:
        return Group(names=(), rejected=rejected, program=None, counts=(), symbolic=())
    program = _exported(left, kind, dynamic)
    return Group(
        names=left,
        rejected=rejected,
        program=program,
        counts=tuple(counts.values()),
        symbolic=_symbolic(program, left, kind),
    )


def _exported(names: tuple[str, ...], dtype: torch.dtype, dynamic: bool) -> ExportedProgram:
    given = [list(samples()[name].inputs(dtype)) for name in names]
    shapes = None
    if dynamic:
        rows = torch.export.Dim.AUTO(min=SIZES[1], max=SIZES[2])
        shapes = ([[{0: rows} for _ in one] for one in given],)
    try:
        with torch.no_grad():
            return torch.export.export(Joint(names, dtype), (given,), dynamic_shapes=shapes)
    except Exception as error:
        raise NotExported(REJECTED + first_line(error)) from error


def _symbolic(
    program: ExportedProgram, names: tuple[str, ...], dtype: torch.dtype
) -> tuple[tuple[bool, ...], ...]:
    nodes = {node.name: node for node in program.graph.nodes if node.op == "placeholder"}
    given = iter(program.graph_signature.user_inputs)

    def symbolic() -> bool:
        shape: Any = nodes[str(next(given))].meta["val"].shape
        return isinstance(shape[0], torch.SymInt)

    return tuple(tuple(symbolic() for _ in samples()[name].inputs(dtype)) for name in names)


def first_line(error: BaseException) -> str:
    """What an error says, in one line."""
    lines = [line.strip() for line in str(error).strip().splitlines()]
    return (lines[0] if lines else type(error).__name__)[:300]
