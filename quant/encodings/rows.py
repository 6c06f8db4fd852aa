"""From tensors to blocks and back: every check that an encoding need not make itself."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import torch

from cede.errors import EncodingError
from cede.types import block_bytes

if TYPE_CHECKING:
    from collections.abc import Sequence

    from cede.types import Encoding

FLOATS = (torch.float16, torch.bfloat16, torch.float32, torch.float64)
CHUNK = 1 << 17
"""Weights that are worked on at once, so that what is between stays in the cache."""


def row_bytes(encoding: Encoding, shape: Sequence[int]) -> int:
    """Bytes of a row, the last dimension of a shape.

    Raises:
        EncodingError: a row is not made of whole blocks.
    """
    if not shape:
        raise EncodingError(f"{encoding.name} encodes rows, and a tensor of no dimension has none")
    if shape[-1] % encoding.block_size:
        raise EncodingError(
            f"a weight of shape {tuple(shape)} can't be {encoding.name}: its rows have"
            f" {shape[-1]} values, which is no multiple of the block of {encoding.block_size}"
        )
    return shape[-1] // encoding.block_size * block_bytes(encoding)


def encode(tensor: torch.Tensor, encoding: Encoding) -> torch.Tensor:
    """Encode a floating-point tensor of any layout to uint8 (..., bytes of a row).

    Raises:
        EncodingError: another dtype, rows that are not made of whole blocks, NaN or infinity, or
            values that the encoding can't express.
    """
    if tensor.is_meta:
        raise EncodingError(f"{encoding.name} encodes values, and a meta tensor has none")
    if tensor.dtype not in FLOATS:
        raise EncodingError(f"{encoding.name} encodes floating-point numbers, not {tensor.dtype}")
    width = row_bytes(encoding, tensor.shape)
    values = tensor.detach().cpu().to(torch.float32).contiguous()
    _check_finite(values, tensor, encoding)
    blocks = values.numpy().reshape(-1, encoding.block_size)
    size = block_bytes(encoding)
    data = np.empty((len(blocks), size), np.uint8)
    step = max(1, CHUNK // encoding.block_size)
    try:
        for start in range(0, len(blocks), step):
            found = encoding.quantize(blocks[start : start + step])
            _check_form(found, (len(blocks[start : start + step]), size), np.uint8, encoding)
            data[start : start + step] = found
    except ValueError as error:
        raise EncodingError(
            f"a weight of shape {tuple(tensor.shape)} can't be {encoding.name}: {error}"
        ) from error
    return torch.from_numpy(data).reshape(*tensor.shape[:-1], width)


def decode(data: torch.Tensor, encoding: Encoding, columns: int) -> torch.Tensor:
    """Decode uint8 (..., bytes of a row) to float32 (..., columns).

    Raises:
        EncodingError: data of another dtype, or rows of another length than the columns take.
    """
    width = row_bytes(encoding, (*data.shape[:-1], columns))
    if data.dtype != torch.uint8 or data.dim() == 0 or data.shape[-1] != width:
        raise EncodingError(
            f"{columns} columns of {encoding.name} are uint8 rows of {width} bytes, not"
            f" {data.dtype} of shape {tuple(data.shape)}"
        )
    size = block_bytes(encoding)
    blocks = data.detach().cpu().contiguous().numpy().reshape(-1, size)
    values = np.empty((len(blocks), encoding.block_size), np.float32)
    step = max(1, CHUNK // encoding.block_size)
    for start in range(0, len(blocks), step):
        found = encoding.dequantize(blocks[start : start + step])
        form = (len(blocks[start : start + step]), encoding.block_size)
        _check_form(found, form, np.float32, encoding)
        values[start : start + step] = found
    return torch.from_numpy(values).reshape(*data.shape[:-1], columns)


def columns_of(data: torch.Tensor, encoding: Encoding) -> int:
    """How many weights a row of encoded bytes holds.

    Raises:
        EncodingError: not uint8, or not whole blocks.
    """
    size = block_bytes(encoding)
    if data.dtype != torch.uint8 or data.dim() == 0 or data.shape[-1] % size:
        raise EncodingError(
            f"{encoding.name} is stored as uint8 rows of blocks of {size} bytes, not {data.dtype}"
            f" of shape {tuple(data.shape)}"
        )
    return data.shape[-1] // size * encoding.block_size


def _check_finite(values: torch.Tensor, given: torch.Tensor, encoding: Encoding) -> None:
    # a sum is finite only if all terms are; where it isn't, it may also have run over
    if torch.isfinite(values.sum(dtype=torch.float64)):
        return
    bad = int((~torch.isfinite(values)).sum())
    if not torch.isfinite(given).all():
        what = f"{bad} of its {values.numel()} values are NaN or infinite"
    else:
        what = f"{bad} of its values are too large for float32"
    raise EncodingError(f"a weight of shape {tuple(given.shape)} can't be {encoding.name}: {what}")


def _check_form(found: object, shape: tuple[int, int], dtype: type, encoding: Encoding) -> None:
    if not isinstance(found, np.ndarray) or found.shape != shape or found.dtype != dtype:
        got = f"{found.dtype}{list(found.shape)}" if isinstance(found, np.ndarray) else repr(found)
        raise EncodingError(
            f"the encoding {encoding.name!r} gave {got[:80]} instead of"
            f" {np.dtype(dtype)}{list(shape)}: this is a fault of the plugin that brings it"
        )
