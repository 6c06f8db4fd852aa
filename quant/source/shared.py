"""An embedding in the bytes of the linear module that has the same weight.

XNNPACK stores int8 weights row by row, and two 4-bit columns in a byte with the first in the low
half (`convert_to_qc4w` of ExecuTorch 1.5.1); `embedding_4bit` reads the first from the high half.
So the table is stored in XNNPACK's order and each pair of columns is turned after the look-up.
Named data of a delegate that equals a constant is stored once (`store_once`).
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import torch
from torch import nn
from torchao.quantization import IntxUnpackedToInt8Tensor

from cede.quant.source.modules import PackedEmbedding, WeightOnlyLinear
from cede.quant.source.scheme import Scheme

if TYPE_CHECKING:
    from collections.abc import Sequence

    from torch import Tensor

    from cede.quant.source.layers import Layer
    from cede.quant.source.rows import QuantizationReport


class SharedEmbedding(PackedEmbedding):
    """An embedding whose pairs of 4-bit columns lie in a byte with the first in the low half.

    Args:
        data: int8 [rows, columns], in -8 .. 7; columns are even.
        scale: float32 [rows, groups]; a group has an even number of columns.
        bits: 4.
    """

    def __init__(self, data: Tensor, scale: Tensor, bits: int) -> None:
        super().__init__(_turned(data), scale, bits)

    def forward(self, ids: Tensor) -> Tensor:
        """Ids [...] to float32 [..., columns]."""
        return _turned(super().forward(ids))


def shared(embedding: Sequence[Layer], output: str, table: str) -> str:
    """Why the two modules can't share their data in the numbers asked for, "" if they can.

    Args:
        embedding: what is to be done with each module, from `layers`.
        output: path of the linear module.
        table: path of the embedding.
    """
    asked = {layer.path: layer for layer in embedding}
    if table not in asked or output not in asked:
        return f"the model has no {table} or no {output}"
    scheme, held = asked[output].scheme, asked[table].scheme
    if scheme is None or held is None:
        left = table if held is None else output
        return "" if scheme is held else f"{left} stays in float, the other is quantized"
    if not isinstance(scheme, Scheme):
        return f"{output} is no linear module"
    if asked[output].padding:
        return f"{output} is padded, and {table} is not"
    if scheme.group and not scheme.dynamic:
        return f"{scheme.name} in groups stores {output} in pieces: take 8da4w"
    if (scheme.bits, scheme.group) != (held.bits, held.group):
        return (
            f"{table} is in {held.name} and {output} in {scheme.bits},{scheme.group}"
            f" ({scheme.name}): give both the same bits and groups"
        )
    return ""


def with_shared_data(
    model: nn.Module, report: QuantizationReport, output: str, table: str
) -> QuantizationReport:
    """Put an embedding in the place of `table`, with the data of the linear module `output`.

    Args:
        model: quantized, changed in place.
        report: of it.
        output: path of the linear module.
        table: path of the embedding.

    Returns:
        The report in which the data are counted once.
    """
    data, scale, bits = _held(model.get_submodule(output))
    made = (PackedEmbedding if bits == 8 else SharedEmbedding)(data, scale, bits)
    model.set_submodule(table, made)
    rows = []
    saved = 0
    for row in report.rows:
        if row.module == table:
            after = made.get_buffer("scale").nbytes
            saved = row.bytes_after - after
            row = replace(row, bytes_after=after, note=f"has the data of {output}")
        rows.append(row)
    return replace(report, rows=tuple(rows), bytes_after=report.bytes_after - saved)


def _held(linear: nn.Module) -> tuple[Tensor, Tensor, int]:
    """Integers [out, in], scales [out, groups] and bits."""
    if isinstance(linear, WeightOnlyLinear):
        scale = linear.get_buffer("scale0").unsqueeze(1)
        return linear.get_buffer("data0"), scale, linear.bits
    weight = linear.get_parameter("weight")
    assert isinstance(weight, IntxUnpackedToInt8Tensor)  # noqa: S101  (`shared` was asked)
    bits = 4 if str(weight.target_dtype) == "torch.int4" else 8
    scale = weight.scale.reshape(weight.qdata.shape[0], -1).to(torch.float32)
    return weight.qdata, scale, bits


def _turned(values: Tensor) -> Tensor:
    """[..., columns] with the two of each pair of columns in each other's place."""
    pairs = values.reshape(*values.shape[:-1], -1, 2)
    return pairs.flip(-1).reshape(values.shape)
