"""Modules of integers and scales that are known already, such as those of a checkpoint."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch

from cede.quant.source.held import held_bytes
from cede.quant.source.rewrite import of_integers, places
from cede.quant.source.rows import QuantizationReport, QuantizedRow
from cede.quant.source.scheme import Embedding

if TYPE_CHECKING:
    from collections.abc import Mapping

    from torch import Tensor, nn

    from cede.quant.source.scheme import Scheme


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Integers:
    """A weight in integers.

    Attributes:
        scheme: in which numbers it computes; symmetric.
        data: int8 [out, in], in -2**(bits-1) .. 2**(bits-1)-1.
        scale: float32 [out, groups].
    """

    scheme: Scheme | Embedding
    data: Tensor
    scale: Tensor

    def dequantized(self) -> Tensor:
        """The weight, float32 [out, in]."""
        groups = self.scale.shape[1]
        return self.data * self.scale.repeat_interleave(self.data.shape[1] // groups, 1)


def put(model: nn.Module, weights: Mapping[str, Integers]) -> None:
    """Put modules of these weights into a model, in place.

    Args:
        model: its linear and embedding modules may be on the meta device; their biases not.
        weights: by the path of the module.
    """
    modules, holders = dict(model.named_modules()), places(model)
    for path, held in weights.items():
        with torch.no_grad():
            done = of_integers(modules[path], held.scheme, held.data, held.scale)
        for parent, name in holders[id(modules[path])]:
            setattr(parent, name, done)


def with_rows(
    report: QuantizationReport | None, model: nn.Module, weights: Mapping[str, Integers], note: str
) -> QuantizationReport:
    """The report with a row for each of these weights, in place of what it says of its module.

    Args:
        report: None where nothing else was quantized.
        model: that the weights were put into.
        weights: by the path of the module.
        note: for the rows.
    """
    others = [row for row in report.rows if row.module not in weights] if report else []
    gone = [row for row in report.rows if row.module in weights] if report else []
    own = [_row(path, model.get_submodule(path), held, note) for path, held in weights.items()]
    before = sum(row.bytes_before for row in own) - sum(row.bytes_before for row in gone)
    after = sum(row.bytes_after for row in own) - sum(row.bytes_after for row in gone)
    return QuantizationReport(
        rows=(*own, *others),
        bytes_before=before + (report.bytes_before if report else 0),
        bytes_after=after + (report.bytes_after if report else 0),
        output_sqnr=report.output_sqnr if report else None,
    )


def _row(path: str, done: nn.Module, held: Integers, note: str) -> QuantizedRow:
    return QuantizedRow(
        module=path,
        kind="Embedding" if isinstance(held.scheme, Embedding) else "Linear",
        shape=tuple(held.data.shape),
        scheme=held.scheme.name,
        group=held.scheme.group,
        bytes_before=held.data.numel() * 4,
        bytes_after=held_bytes(done),
        note=note,
    )
