"""One tiny call for every op of the core ATen set."""

from __future__ import annotations

from typing import Any

import torch

from cede.support.data import ROWS, A, B, D, F, H, I, P, Rows, U, V, W, X
from cede.support.sample import Sample, call, named, skip

aten = torch.ops.aten

RANDOM = "its result is random: no two runs agree"
EMPTY = "its result is not initialized: there is nothing to compare"
SIZE = "it gives a number about a tensor, not a tensor: it stays with the program"

MATRIX, POSITIVE, HALVES = F(ROWS, 8), P(ROWS, 8), H(ROWS, 8)

UNARY = {
    **dict.fromkeys(
        (
            "abs", "atan", "asinh", "ceil", "cos", "cosh", "erf", "exp", "expm1", "floor", "neg",
            "relu", "sigmoid", "sign", "sin", "sinh", "tanh", "trunc", "gelu", "elu", "leaky_relu",
            "hardtanh", "alias", "clone", "bitwise_not", "logical_not",
        ),
        MATRIX,
    ),
    **dict.fromkeys(("log", "log10", "log1p", "log2", "sqrt", "rsqrt", "reciprocal"), P(ROWS, 8)),
    **dict.fromkeys(("acos", "asin", "atanh", "tan"), U(ROWS, 8)),
    **dict.fromkeys(("isinf", "isnan"), X(ROWS, 8)),
    "acosh": A(ROWS, 8),
    "round": H(ROWS, 8),
}  # fmt: skip

COMPARISONS = ("eq", "ge", "gt", "le", "lt", "ne")


def _pairs() -> list[Sample]:
    """Element-wise ops of two tensors, or of one and a number."""
    rows: list[Sample] = []
    for name in COMPARISONS:
        overloads = getattr(aten, name)
        rows += [
            call(overloads.Tensor, HALVES, HALVES),
            call(overloads.Scalar, HALVES, 1),
        ]
    for name in ("bitwise_and", "bitwise_or", "bitwise_xor"):
        overloads = getattr(aten, name)
        rows += [
            call(overloads.Tensor, MATRIX, MATRIX),
            call(overloads.Scalar, MATRIX, 5),
        ]
    for name in ("logical_and", "logical_or", "logical_xor"):
        rows.append(call(getattr(aten, name).default, HALVES, HALVES))
    for name in ("maximum", "minimum", "atan2"):
        rows.append(call(getattr(aten, name).default, MATRIX, MATRIX))
    for name in ("div", "fmod", "remainder"):
        overloads = getattr(aten, name)
        rows += [
            call(overloads.Tensor, MATRIX, POSITIVE),
            call(overloads.Scalar, MATRIX, 2),
        ]
    for name in ("add", "sub", "mul"):
        overloads = getattr(aten, name)
        rows += [
            call(overloads.Tensor, MATRIX, MATRIX),
            call(overloads.Scalar, MATRIX, 3),
        ]
    return rows


def _elementwise() -> list[Sample]:
    return [
        *(call(getattr(aten, name).default, data) for name, data in UNARY.items()),
        *_pairs(),
        call(aten.atan2.out, MATRIX, MATRIX, out=MATRIX),
        call(aten.div.Tensor_mode, MATRIX, POSITIVE, rounding_mode="floor"),
        call(aten.div.Scalar_mode, MATRIX, 2, rounding_mode="trunc"),
        call(aten.pow.Tensor_Tensor, POSITIVE, POSITIVE),
        call(aten.pow.Tensor_Scalar, MATRIX, 2),
        call(aten.pow.Scalar, 2, POSITIVE),
        call(aten.clamp.default, MATRIX, -1, 1),
        call(aten.clamp.Tensor, MATRIX, F(8), P(8)),
        call(aten.where.self, B(ROWS, 8), MATRIX, MATRIX),
        call(aten.copy.default, MATRIX, MATRIX),
        call(aten._to_copy.default, MATRIX, dtype=torch.int32),
        call(aten.fill.Scalar, MATRIX, 3),
        call(aten.native_dropout.default, MATRIX, 0.5, False),
    ]


def _reductions() -> list[Sample]:
    rows = [call(getattr(aten, n).default, D(ROWS, 8), [1]) for n in ("amax", "amin")]
    rows += [call(getattr(aten, n).default, D(ROWS, 8), 1) for n in ("argmax", "argmin")]
    rows += [call(getattr(aten, n).dim, D(ROWS, 8), 1) for n in ("max", "min")]
    rows += [call(getattr(aten, n).default, MATRIX, 1, False) for n in ("_softmax", "_log_softmax")]
    return [
        *rows,
        call(aten.any.default, B(ROWS, 8)),
        call(aten.any.dim, B(ROWS, 8), 1),
        call(aten.any.dims, B(ROWS, 4, 2), [1, 2]),
        call(aten.mean.default, MATRIX),
        call(aten.mean.dim, MATRIX, [1], True),
        call(aten.sum.dim_IntList, MATRIX, [1], True),
        call(aten.prod.default, P(ROWS, 2)),
        call(aten.prod.dim_int, P(ROWS, 4), 1),
        call(aten.var.dim, MATRIX, [1]),
        call(aten.var.correction, MATRIX, [1], correction=0),
        call(aten.cumsum.default, MATRIX, 1),
        call(aten.sort.default, D(ROWS, 8), 1, True),
        call(aten.topk.default, D(ROWS, 8), 3),
        call(aten._cdist_forward.default, MATRIX, MATRIX, 2.0, None),
        call(aten._pdist_forward.default, MATRIX, 2.0),
        call(aten._fft_r2c.default, MATRIX, [1], 0, True),
        skip(aten._fft_c2r.default, "its input is complex, which no probed dtype is"),
        skip(aten._local_scalar_dense.default, SIZE),
        skip(aten.nonzero.default, "the size of its result depends on the data: no static program"),
    ]


def _resized(x: torch.Tensor, size: list[int]) -> torch.Tensor:
    made: torch.Tensor = aten.resize_.default(x.clone(), size)  # no program may resize an input
    return made


def _movement() -> list[Sample]:
    return [
        call(aten.as_strided.default, MATRIX, [ROWS, 4], [8, 2]),
        call(aten.cat.default, [MATRIX, F(ROWS, 3)], 1),
        call(aten.constant_pad_nd.default, MATRIX, [1, 2], 0.0),
        call(aten.diagonal.default, F(ROWS, 8, 8), 0, 1, 2),
        call(aten.expand.default, F(ROWS, 1), [-1, 8]),
        call(aten.flip.default, MATRIX, [1]),
        call(aten.gather.default, MATRIX, 1, I(8, ROWS, 3)),
        call(aten.index.Tensor, F(8, 6), [I(8, ROWS)]),
        call(aten.index_put.default, F(8, 6), [torch.tensor([5, 0, 2])], F(3, 6)),
        call(aten.index_select.default, MATRIX, 1, I(8, 3)),
        call(aten.masked_scatter.default, MATRIX, B(ROWS, 8), MATRIX),
        call(aten.permute.default, F(ROWS, 3, 5), [0, 2, 1]),
        call(aten.repeat.default, F(ROWS, 3), [1, 2]),
        named(str(aten.resize_.default), _resized, F(ROWS, 8), [Rows(), 4]),
        call(aten.scatter.value, MATRIX, 1, I(8, ROWS, 1), 2.0),
        call(aten.scatter.src, MATRIX, 1, I(8, ROWS, 1), F(ROWS, 1)),
        call(aten.scatter_add.default, MATRIX, 1, I(8, ROWS, 3), F(ROWS, 3)),
        call(aten.scatter_reduce.two, MATRIX, 1, I(8, ROWS, 3), F(ROWS, 3), "amax"),
        call(aten.select.int, MATRIX, 1, 3),
        call(aten.select_scatter.default, MATRIX, F(ROWS), 1, 3),
        call(aten.slice.Tensor, MATRIX, 1, 2, 6),
        call(aten.slice_scatter.default, MATRIX, F(ROWS, 4), 1, 2, 6),
        call(aten.split_with_sizes.default, MATRIX, [3, 5], 1),
        call(aten.squeeze.dim, F(ROWS, 1, 8), 1),
        call(aten.squeeze.dims, F(ROWS, 1, 8, 1), [1, 3]),
        call(aten.unsqueeze.default, MATRIX, 1),
        call(aten.view.default, MATRIX, [-1, 4, 2]),
        call(aten.reflection_pad1d.default, F(ROWS, 3, 8), [2, 1]),
        call(aten.reflection_pad2d.default, F(ROWS, 2, 6, 6), [2, 1, 1, 2]),
        call(aten.reflection_pad3d.default, F(ROWS, 2, 4, 4, 4), [1, 2, 1, 1, 2, 1]),
        call(aten.replication_pad2d.default, F(ROWS, 2, 6, 6), [2, 1, 1, 2]),
        call(aten.replication_pad3d.default, F(ROWS, 2, 4, 4, 4), [1, 2, 1, 1, 2, 1]),
        call(aten.col2im.default, F(ROWS, 8, 4), [4, 4], [2, 2], [1, 1], [0, 0], [2, 2]),
    ]


def _products() -> list[Sample]:
    conv: list[Any] = [[1, 1], [1, 1], [1, 1], False, [0, 0], 1]
    return [
        call(aten.addmm.default, W(5), MATRIX, W(8, 5)),
        call(aten.bmm.default, F(ROWS, 3, 5), F(ROWS, 5, 2)),
        call(aten.mm.default, MATRIX, W(8, 5)),
        call(aten.convolution.default, F(ROWS, 3, 8, 8), W(4, 3, 3, 3), W(4), *conv),
        call(
            aten.convolution_backward.default,
            F(ROWS, 4, 8, 8), F(ROWS, 3, 8, 8), W(4, 3, 3, 3), None, *conv, [True, True, False],
        ),
        call(aten.embedding.default, W(10, 8), I(10, ROWS, 3)),
        call(aten.embedding_dense_backward.default, MATRIX, I(10, ROWS), 10, -1, False),
        call(
            aten._embedding_bag.default,
            W(10, 8), I(10, 6), torch.tensor([0, 2, 4, 5]), False, 0, False, None,
        ),
        call(aten.grid_sampler_2d.default, F(ROWS, 2, 5, 5), U(ROWS, 4, 4, 2), 0, 0, False),
    ]  # fmt: skip


def _norms() -> list[Sample]:
    image = F(ROWS, 6, 4, 4)
    return [
        call(
            aten._native_batch_norm_legit.default, image, W(6), W(6), V(6), V(6), False, 0.1, 1e-5
        ),
        call(aten._native_batch_norm_legit.no_stats, image, W(6), W(6), True, 0.1, 1e-5),
        call(
            aten._native_batch_norm_legit_no_training.default,
            image, W(6), W(6), W(6), V(6), 0.1, 1e-5,
        ),
        call(aten.native_group_norm.default, image, W(6), W(6), Rows(), 6, 16, 2, 1e-5),
        call(
            aten.native_group_norm_backward.default,
            image, image, F(ROWS, 2), P(ROWS, 2), W(6), Rows(), 6, 16, 2, [True, True, True],
        ),
        call(aten.native_layer_norm.default, MATRIX, [8], W(8), W(8), 1e-5),
        call(
            aten.native_layer_norm_backward.default,
            MATRIX, MATRIX, [8], F(ROWS, 1), P(ROWS, 1), W(8), W(8), [True, True, True],
        ),
    ]  # fmt: skip


def _pooling() -> list[Sample]:
    line, image, small = F(ROWS, 2, 8), F(ROWS, 2, 8, 8), F(ROWS, 2, 4, 4)
    volume = F(ROWS, 2, 4, 4, 4)
    return [
        call(aten._adaptive_avg_pool2d.default, image, [4, 4]),
        call(aten._adaptive_avg_pool2d_backward.default, small, image),
        call(aten._adaptive_avg_pool3d.default, volume, [2, 2, 2]),
        call(aten.adaptive_avg_pool1d.default, line, [4]),
        call(aten.avg_pool1d.default, line, [2], [2]),
        call(aten.avg_pool2d.default, image, [2, 2], [2, 2]),
        call(
            aten.avg_pool2d_backward.default,
            small, image, [2, 2], [2, 2], [0, 0], False, True, None,
        ),
        call(aten.avg_pool3d.default, volume, [2, 2, 2], [2, 2, 2]),
        call(aten.max_pool2d_with_indices.default, D(ROWS, 2, 8, 8), [2, 2], [2, 2]),
        call(
            aten.max_pool2d_with_indices_backward.default,
            small, image, [2, 2], [2, 2], [0, 0], [1, 1], False, I(64, ROWS, 2, 4, 4),
        ),
        call(aten.max_pool3d_with_indices.default, D(ROWS, 2, 4, 4, 4), [2, 2, 2], [2, 2, 2]),
        call(aten.upsample_bilinear2d.vec, image, [16, 16], False, None),
        call(aten.upsample_nearest2d.vec, image, [16, 16], None),
    ]  # fmt: skip


def _made() -> list[Sample]:
    return [
        call(aten.arange.start_step, 0, 8, 2, typed=True),
        call(aten.full.default, [Rows(), 8], 3, typed=True, given=F(ROWS, 2)),
        call(aten.full_like.default, F(ROWS, 8), 3),
        call(aten.scalar_tensor.default, 3, typed=True),
        *(skip(op, EMPTY) for op in (aten.empty.memory_format, aten.empty_strided.default)),
        *(skip(getattr(aten, n).default, RANDOM) for n in ("rand", "randn", "randperm")),
        *(
            skip(op, SIZE)
            for op in (
                aten.sym_is_contiguous.default, aten.sym_numel.default, aten.sym_size.int,
                aten.sym_storage_offset.default, aten.sym_stride.int,
            )
        ),
    ]  # fmt: skip


def core_ops() -> list[Sample]:
    """A sample for every op with the tag `core`, by name."""
    groups = (_elementwise, _reductions, _movement, _products, _norms, _pooling, _made)
    return sorted((row for group in groups for row in group()), key=lambda row: row.name)
