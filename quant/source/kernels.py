"""torchao's own kernels of few bits: which of them are here, and the modules that call them.

Public names of torchao 0.18 (`prototype/quantization/embedding/api.py`). Its wheels hold no
kernels; they are built from its source for Arm, and register operators of the namespace `torchao`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch
from torch import nn

if TYPE_CHECKING:
    from collections.abc import Sequence

    from torch import Tensor

    from cede.quant.source.scheme import Embedding

LINEAR = ("_pack_8bit_act_{}bit_weight", "_linear_8bit_act_{}bit_weight")
TABLE = ("_pack_embedding_{}bit", "_embedding_{}bit")
SHARED = (*LINEAR, "_shared_embedding_{}bit")
"""Operators of linear modules, of embeddings, and of an embedding that shares its weight."""


def lacking(operators: Sequence[str], bits: int) -> str:
    """What of torchao's operators is not registered here, "" where all are."""
    names = [name.format(bits) for name in operators]
    missing = [f"torch.ops.torchao.{name}" for name in names if not _known(name)]
    return ", ".join(missing)


def table(weight: Tensor, scheme: Embedding) -> nn.Module:
    """An embedding that torchao's kernels look up.

    Args:
        weight: float32 [rows, columns].
        scheme: its numbers.
    """
    from torchao.prototype.quantization.embedding.api import EmbeddingQuantizer

    holder = nn.Module()
    rows, columns = weight.shape
    holder.table = nn.Embedding(rows, columns, _weight=weight)
    EmbeddingQuantizer(**_numbers(scheme)).quantize(holder)
    return holder.get_submodule("table")


def tie(model: nn.Module, table: str, output: str, scheme: Embedding) -> None:
    """Let an embedding and a linear module read one packed weight, in place.

    Args:
        model: holds both, float32, of equal weights.
        table: path of the embedding.
        output: path of the linear module.
        scheme: their numbers.
    """
    from torchao.prototype.quantization.embedding.api import TiedEmbeddingQuantizer

    with torch.no_grad():
        TiedEmbeddingQuantizer(**_numbers(scheme)).quantize(model, {table: output})


def _numbers(scheme: Embedding) -> dict[str, Any]:
    from torchao.quantization import MappingType, PerAxis, PerGroup

    return {
        "weight_dtype": getattr(torch, f"int{scheme.bits}"),
        "granularity": PerGroup(scheme.group) if scheme.group else PerAxis(0),
        "mapping_type": MappingType.ASYMMETRIC if scheme.asymmetric else MappingType.SYMMETRIC,
    }


def _known(name: str) -> bool:
    return hasattr(torch.ops.torchao, name)
