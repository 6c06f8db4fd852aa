"""Tiny calls of functions of `torch.nn.functional` and the like, as models write them."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch
from torch.nn import functional as nnf

from cede.support.data import ROWS, D, F, I, V, W
from cede.support.sample import Sample, named

if TYPE_CHECKING:
    from torch import Tensor


def _lstm(x: Tensor, ih: Tensor, hh: Tensor, bias: Tensor, other: Tensor) -> Tensor:
    first = x.new_zeros(1, x.shape[0], 4)
    made: Tensor = torch.ops.aten.lstm.input(
        x, [first, first], [ih, hh, bias, other], True, 1, 0.0, False, False, True
    )[0]
    return made


def functions() -> list[Sample]:
    """A sample for each function, by name."""
    return sorted((*_windows(), *_others()), key=lambda row: row.name)


def _windows() -> list[Sample]:
    """Pooling, convolution and what else looks at neighbours."""
    return [
        named("adaptive_avg_pool2d", nnf.adaptive_avg_pool2d, F(ROWS, 2, 8, 8), 1),
        named("avg_pool1d", nnf.avg_pool1d, F(ROWS, 2, 8), 2),
        named("avg_pool2d", nnf.avg_pool2d, F(ROWS, 2, 8, 8), 2),
        named("avg_pool3d", nnf.avg_pool3d, F(ROWS, 2, 4, 4, 4), 2),
        named(
            "batch_norm", nnf.batch_norm, F(ROWS, 6, 4, 4), W(6), V(6), W(6), W(6), False, 0.1, 1e-5
        ),
        named("conv1d", nnf.conv1d, F(ROWS, 3, 8), W(4, 3, 3), W(4), 1, 1),
        named("conv2d", nnf.conv2d, F(ROWS, 3, 8, 8), W(4, 3, 3, 3), W(4), 1, 1),
        named("conv2d depthwise", nnf.conv2d, F(ROWS, 4, 8, 8), W(4, 1, 3, 3), W(4), 1, 1, 1, 4),
        named("conv3d", nnf.conv3d, F(ROWS, 2, 4, 4, 4), W(3, 2, 3, 3, 3), W(3), 1, 1),
        named(
            "conv_transpose2d", nnf.conv_transpose2d, F(ROWS, 3, 6, 6), W(3, 4, 3, 3), W(4), 2, 1, 1
        ),
        named("interpolate bilinear", nnf.interpolate, F(ROWS, 2, 6, 6), (12, 12), mode="bilinear"),
        named("interpolate nearest", nnf.interpolate, F(ROWS, 2, 6, 6), (12, 12)),
        named("max_pool1d", nnf.max_pool1d, D(ROWS, 2, 8), 2),
        named("max_pool2d", nnf.max_pool2d, D(ROWS, 2, 8, 8), 2),
        named("max_pool3d", nnf.max_pool3d, D(ROWS, 2, 4, 4, 4), 2),
    ]


def _others() -> list[Sample]:
    head = F(ROWS, 2, 5, 8)
    return [
        named("embedding", nnf.embedding, I(10, ROWS, 3), W(10, 8)),
        named("glu", nnf.glu, F(ROWS, 8), 1),
        named("group_norm", nnf.group_norm, F(ROWS, 6, 4, 4), 2, W(6), W(6)),
        named("hardsigmoid", nnf.hardsigmoid, F(ROWS, 8)),
        named("hardswish", nnf.hardswish, F(ROWS, 8)),
        named("layer_norm", nnf.layer_norm, F(ROWS, 8), [8], W(8), W(8)),
        named("linear", nnf.linear, F(ROWS, 8), W(5, 8), W(5)),
        named("log_softmax", nnf.log_softmax, F(ROWS, 8), -1),
        named("lstm", _lstm, F(ROWS, 3, 5), W(16, 5), W(16, 4), W(16), W(16)),
        named("matmul", torch.matmul, F(ROWS, 3, 5), F(ROWS, 5, 2)),
        named("pixel_shuffle", nnf.pixel_shuffle, F(ROWS, 8, 3, 3), 2),
        named("prelu", nnf.prelu, F(ROWS, 4, 3), W(4)),
        named("rms_norm", nnf.rms_norm, F(ROWS, 8), [8], W(8)),
        named("scaled_dot_product_attention", nnf.scaled_dot_product_attention, head, head, head),
        named("select", torch.select, F(ROWS, 8), 1, 3),
        named("silu", nnf.silu, F(ROWS, 8)),
        named("softmax", nnf.softmax, F(ROWS, 8), -1),
        named("split", torch.split, F(ROWS, 8), 4, 1),
        named("stack", torch.stack, [F(ROWS, 8), F(ROWS, 8)], 1),
        named("tile", torch.tile, F(ROWS, 3), (1, 2)),
        named("transpose", torch.transpose, F(ROWS, 3, 5), 1, 2),
        named("var_mean", torch.var_mean, F(ROWS, 8), 1),
    ]
