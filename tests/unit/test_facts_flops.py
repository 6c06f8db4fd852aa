"""FLOPs against numbers that were worked out by hand."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
import torch
import torch.nn.functional as F
from executorch.exir import to_edge
from torch import nn
from torch.export import Dim, export

from cede.facts import read_graph

if TYPE_CHECKING:
    from collections.abc import Callable

    from cede.types import OpGraph


class Calls(nn.Module):
    def __init__(self, call: Callable[..., Any]) -> None:
        super().__init__()
        self.call = call

    def forward(self, *args: torch.Tensor) -> Any:
        return self.call(*args)


def flops(graph: OpGraph, kind: str) -> int:
    found = [op.flops for op in graph.ops if op.kind == kind]
    assert found, [op.kind for op in graph.ops]
    return sum(found)


r = torch.randn
CASES: dict[str, tuple[Callable[..., Any], tuple[Any, ...], str, int]] = {
    # rows 3, inner 5, columns 7: a multiply-add is two
    "linear": (F.linear, (r(3, 5), r(7, 5)), "aten.mm", 2 * 3 * 5 * 7),
    "linear with bias": (F.linear, (r(3, 5), r(7, 5), r(7)), "aten.addmm", 2 * 3 * 5 * 7),
    "bmm": (torch.bmm, (r(2, 3, 5), r(2, 5, 7)), "aten.bmm", 2 * 2 * 3 * 5 * 7),
    # out 2x8x6x4, each from 3 channels of 3x3
    "conv": (F.conv2d, (r(2, 3, 8, 6), r(8, 3, 3, 3)), "aten.convolution",
             2 * (2 * 8 * 6 * 4) * 3 * 9),
    "strided conv": (lambda x, w: F.conv2d(x, w, stride=2, padding=1),
                     (r(1, 3, 8, 6), r(8, 3, 3, 3)), "aten.convolution", 2 * (8 * 4 * 3) * 3 * 9),
    # depthwise: each output from one channel
    "depthwise conv": (lambda x, w: F.conv2d(x, w, groups=4), (r(1, 4, 8, 6), r(4, 1, 3, 3)),
                       "aten.convolution", 2 * (4 * 6 * 4) * 9),
    "conv1d": (F.conv1d, (r(1, 4, 10), r(6, 4, 3)), "aten.convolution", 2 * (6 * 8) * 4 * 3),
    "add": (torch.add, (r(4, 1), r(3)), "aten.add", 12),
    "sigmoid": (torch.sigmoid, (r(4, 3),), "aten.sigmoid", 12),
    "softmax": (lambda x: torch.softmax(x, -1), (r(4, 3),), "aten._softmax", 12),
    "sum": (lambda x: x.sum(1), (r(4, 3),), "aten.sum", 12),
    "max pool": (lambda x: F.max_pool2d(x, 2), (r(1, 2, 4, 6),), "aten.max_pool2d_with_indices",
                 4 * 2 * 2 * 3),
    "avg pool": (lambda x: F.avg_pool2d(x, 2), (r(1, 2, 4, 6),), "aten.avg_pool2d", 4 * 2 * 2 * 3),
    "view": (lambda x: x.view(12), (r(4, 3),), "aten.view_copy", 0),
    "permute": (lambda x: x.permute(1, 0), (r(4, 3),), "aten.permute_copy", 0),
    "cat": (lambda x, y: torch.cat([x, y]), (r(4, 3), r(4, 3)), "aten.cat", 0),
    "clone": (lambda x: x.clone(), (r(4, 3),), "dim_order_ops._clone_dim_order", 0),
    "embedding": (lambda w, i: F.embedding(i, w), (r(4, 3), torch.tensor([1, 2])),
                  "aten.embedding", 0),
}  # fmt: skip


@pytest.mark.parametrize("name", CASES)
def test_flops(name: str) -> None:
    call, args, kind, wanted = CASES[name]
    graph = read_graph(to_edge(export(Calls(call), args)).exported_program())
    assert flops(graph, kind) == wanted


def test_transposed_conv_counts_by_its_input() -> None:
    # each of the 3*4*4 inputs meets 5 channels of 2x2
    graph = read_graph(
        to_edge(
            export(Calls(F.conv_transpose2d), (r(1, 3, 4, 4), r(3, 5, 2, 2)))
        ).exported_program()
    )
    assert flops(graph, "aten.convolution") == 2 * (3 * 4 * 4) * 5 * 4


def test_ops_kept_whole_at_the_upper_bound() -> None:
    def call(x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
        return F.linear(x, w)

    rows = Dim("rows", min=1, max=10)
    program = export(Calls(call), (r(3, 5), r(7, 5)), dynamic_shapes=(({0: rows}, None),))
    graph = read_graph(program)
    assert flops(graph, "aten.linear") == 2 * 10 * 5 * 7


def test_attention_kept_whole() -> None:
    query, key, value = r(1, 2, 4, 8), r(1, 2, 6, 8), r(1, 2, 6, 3)
    graph = read_graph(export(Calls(F.scaled_dot_product_attention), (query, key, value)))
    # for each of two heads 4x8 times 8x6, then 4x6 times 6x3
    wanted = 2 * (2 * 4 * 8 * 6 + 2 * 4 * 6 * 3)
    assert flops(graph, "aten.scaled_dot_product_attention") == wanted
