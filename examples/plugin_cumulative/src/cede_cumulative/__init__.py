"""A plugin for cede: the gated scan, and what stands around it, goes to the reference backend."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import cede
from cede.partitioners.rules import Rule, Ruled, dtype

if TYPE_CHECKING:
    from collections.abc import Iterator

AROUND = (
    "aten.sigmoid.default", "aten.mul.Tensor", "aten.add.Tensor", "aten.sub.Tensor",
    "aten.unsqueeze_copy.default",
)  # fmt: skip


def _whole() -> tuple[Any, ...]:
    import torch

    from cede_cumulative import operator  # noqa: F401  (defines the operator)

    return (torch.ops.cumulative.gated_scan.default,)


@cede.hookimpl
def cede_partitioners() -> Iterator[cede.Partitioner]:
    """One partitioner, made of rules."""
    yield Ruled(
        name="cumulative",
        backend="reference",
        rules=(
            Rule(("cumulative.gated_scan.default",), (dtype("float32"),), note="gated scan"),
            Rule(AROUND, (dtype("float32"),)),
        ),
        keep=_whole,
    )
