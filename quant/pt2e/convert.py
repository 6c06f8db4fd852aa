"""From observers to quantize and dequantize ops, as each backend reads them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from torchao.quantization.pt2e.constant_fold import constant_fold
from torchao.quantization.pt2e.quantize_pt2e import convert_pt2e

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from torch.fx import GraphModule, Node

    from cede.quant.pt2e.assign import Assignment
    from cede.types import Quantizer


def convert(prepared: GraphModule, records: Sequence[Quantizer], asked: Assignment) -> GraphModule:
    """Convert a calibrated graph; weights are stored quantized for those that want it so."""
    folds = {record.name for record in records if record.fold}
    converted: GraphModule
    if len(folds) in (0, len(records)):
        converted = convert_pt2e(prepared, fold_quantize=bool(folds))
    else:
        converted = convert_pt2e(prepared, fold_quantize=False)
        stays = {node for node in converted.graph.nodes if not _folds(node, folds, asked)}
        constant_fold(converted, lambda node: node not in stays)
    for record in records:
        if record.finish is not None:
            record.finish(converted)
    return converted


def _folds(node: Node, folds: Collection[str], asked: Assignment) -> bool:
    """Whether an op may become a constant: a quantize op that only such quantizers' ops read."""
    if not str(node.target).startswith("quantized_decomposed.quantize_per"):
        return False
    readers = [op for dequantize in node.users for op in dequantize.users]
    return bool(readers) and all(asked.quantizer(op) in folds for op in readers)
