"""The operators `cede::qmatmul` and `cede::qembedding`, which compute with encoded weights.

Importing this module registers them with torch. Their kernels decode rows of the weight in chunks,
so that never the whole weight is there as float32. A backend that computes with an encoding
natively claims the op; for others lowering decodes the weight, see `cede.lowering.encoded`.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import torch
from torch import Tensor
from torch.utils.flop_counter import register_flop_formula

from cede.errors import EncodingError
from cede.quant.encodings.find import find
from cede.quant.encodings.rows import columns_of, decode

if TYPE_CHECKING:
    from cede.types import Encoding

ROWS = 1 << 20
"""Weights that are decoded at once; at least one row."""


@torch.library.custom_op("cede::qmatmul", mutates_args=(), device_types="cpu")
def qmatmul(x: Tensor, weight: Tensor, encoding: str, bias: Tensor | None = None) -> Tensor:
    """`torch.nn.functional.linear` with an encoded weight.

    Args:
        x: float32 (..., columns).
        weight: uint8 (rows, bytes of a row).
        encoding: name of the weight's encoding.
        bias: float32 (rows,).

    Returns:
        float32 (..., rows).

    Raises:
        ConfigError: nobody brings the encoding.
        EncodingError: shapes or dtypes that don't fit.
    """
    record = find(encoding)
    columns = _check_matmul(x, weight, record, bias)
    rows, step = len(weight), max(1, ROWS // max(1, columns))
    out = x.new_empty((*x.shape[:-1], rows))
    for start in range(0, rows, step):
        part = slice(start, start + step)
        values = decode(weight[part], record, columns)
        here = None if bias is None else bias[part]
        out[..., part] = torch.nn.functional.linear(x, values, here)
    return out


@qmatmul.register_fake
def _(x: Tensor, weight: Tensor, encoding: str, bias: Tensor | None = None) -> Tensor:
    _check_matmul(x, weight, find(encoding), bias)
    return x.new_empty((*x.shape[:-1], weight.shape[0]))


@torch.library.custom_op("cede::qembedding", mutates_args=(), device_types="cpu")
def qembedding(indices: Tensor, weight: Tensor, encoding: str) -> Tensor:
    """`torch.nn.functional.embedding` with an encoded weight; decodes only the rows asked for.

    Args:
        indices: integers of any shape, each below the number of rows.
        weight: uint8 (rows, bytes of a row).
        encoding: name of the weight's encoding.

    Returns:
        float32 (..., columns).

    Raises:
        ConfigError: nobody brings the encoding.
        EncodingError: shapes or dtypes that don't fit.
        IndexError: an index that is no row.
    """
    record = find(encoding)
    columns = _check_embedding(indices, weight, record)
    chosen = indices.reshape(-1)
    if chosen.numel() and not 0 <= int(chosen.min()) <= int(chosen.max()) < len(weight):
        raise IndexError(f"qembedding: an index is outside of the {len(weight)} rows")
    rows = torch.nn.functional.embedding(chosen, weight)
    return decode(rows, record, columns).reshape(*indices.shape, columns)


@qembedding.register_fake
def _(indices: Tensor, weight: Tensor, encoding: str) -> Tensor:
    columns = _check_embedding(indices, weight, find(encoding))
    return weight.new_empty((*indices.shape, columns), dtype=torch.float32)


@register_flop_formula(torch.ops.cede.qmatmul)
def _flops(x: tuple[int, ...], weight: tuple[int, ...], *rest: object, **out: object) -> int:
    """Of the product; a multiply-add counts two. Sizes as torch's flop counter gives them."""
    return 2 * math.prod(x) * weight[0]


def _check_matmul(x: Tensor, weight: Tensor, encoding: Encoding, bias: Tensor | None) -> int:
    columns = _check_weight(weight, encoding)
    if x.dtype != torch.float32:
        raise EncodingError(f"qmatmul computes with float32, not {x.dtype}: convert the input")
    if x.dim() == 0 or x.shape[-1] != columns:
        raise EncodingError(
            f"qmatmul: an input of shape {tuple(x.shape)} doesn't fit {columns} columns of"
            f" {encoding.name}"
        )
    form = (weight.shape[0],)
    if bias is not None and (bias.dtype != torch.float32 or tuple(bias.shape) != form):
        raise EncodingError(
            f"qmatmul: the bias is float32 of shape {form}, not {bias.dtype} of shape"
            f" {tuple(bias.shape)}"
        )
    return columns


def _check_embedding(indices: Tensor, weight: Tensor, encoding: Encoding) -> int:
    if indices.dtype not in (torch.int64, torch.int32):
        raise EncodingError(f"qembedding takes int64 or int32 indices, not {indices.dtype}")
    return _check_weight(weight, encoding)


def _check_weight(weight: Tensor, encoding: Encoding) -> int:
    columns = columns_of(weight, encoding)
    if weight.dim() != 2:
        raise EncodingError(f"an encoded weight has two dimensions, not {weight.dim()}")
    return columns
