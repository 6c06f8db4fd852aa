"""What Core ML's compiler made of a claimed subgraph, read back and executed."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
import torch
from torch import nn

from .apple_delegates import MADE, delegates, eager, error, kinds, lowered, made, run, subgraphs
from .coreml_program import model_of

if TYPE_CHECKING:
    from collections.abc import Callable

    from cede.running.pte import Delegate

FLOAT32 = ("backends=[coreml]", "options.coreml.compute_precision=float32")
# ATen operators and the MIL ops that may stand for them.
MATRIX = (("aten.linear", "aten.addmm", "aten.mm"), ("linear",))
CONVOLUTION = (("aten.conv2d", "aten.convolution"), ("conv",))
NORM = (("aten.layer_norm",), ("layer_norm",))
POOL = (("aten.max_pool2d", "aten.max_pool2d_with_indices"), ("max_pool",))
SDPA = (("aten.scaled_dot_product_attention",), ("scaled_dot_product_attention",))
EMBEDDING = (("aten.embedding",), ("gather",))


def mil(delegate: Delegate) -> Callable[..., list[torch.Tensor]]:
    model = model_of(delegate.data)
    return lambda *values: model(*values[: len(model.inputs)])


@pytest.mark.parametrize("name", MADE)
def test_the_delegate_holds_the_claimed_subgraph(name: str) -> None:
    given, model, _ = made(name, *FLOAT32)
    [delegate], [subgraph] = delegates(given), subgraphs(given)
    assert dict(delegate.specs)["model_compute_precision"] == b"float32"
    read = model_of(delegate.data)
    claimed = kinds(given)
    for aten, mil_ops in (MATRIX, CONVOLUTION, NORM, POOL, SDPA, EMBEDDING):
        assert sum(read.ops[op] for op in mil_ops) == sum(claimed.count(op) for op in aten), aten
    program = subgraph.original_module
    values = {node.name: node.meta["val"] for node in program.graph.nodes if "val" in node.meta}
    signature = program.graph_signature
    borders = zip(
        (*read.inputs, *read.outputs),
        (*signature.user_inputs, *signature.user_outputs),
        strict=True,
    )
    for feature, border in borders:
        value = values[border]
        assert feature.shape == tuple(value.shape)
        assert feature.dtype == (value.dtype if value.is_floating_point() else torch.int32)
    if name != "conv":  # there the batch norm is folded into the weights
        held = {one.tobytes() for one in read.constants}
        for parameter, weight in model.named_parameters():
            assert np.ascontiguousarray(weight.detach().numpy()).tobytes() in held, parameter


@pytest.mark.parametrize("name", MADE)
def test_the_whole_program_gives_eager_numbers(name: str) -> None:
    given, model, args = made(name, *FLOAT32)
    assert error(run(given, args, eager(given)), model, args) < 1e-6
    assert error(run(given, args, mil), model, args) < 1e-5


@pytest.mark.parametrize("target", ["iOS16", "iOS26"])
def test_other_targets_compute_the_same(target: str) -> None:
    option = f"options.coreml.minimum_deployment_target={target}"
    given, model, args = made("attention", *FLOAT32, option)
    assert error(run(given, args, mil), model, args) < 1e-5


def test_float16_rounds_and_nothing_else() -> None:
    given, model, args = made("mlp", "backends=[coreml]")
    assert {feature.dtype for feature in model_of(delegates(given)[0].data).outputs} == {
        torch.float16
    }
    assert 0 < error(run(given, args, mil), model, args) < 2e-3


class Between(nn.Module):
    """Core ML, an op that it has not, Core ML; several values cross, one of them integer."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = nn.Linear(4, 4), nn.Linear(4, 4)
        self.register_buffer("seen", torch.ones(4))

    def forward(self, x: torch.Tensor, ids: torch.Tensor) -> Any:
        y = self.first(x)
        self.seen.add_(y.sum(0))
        z = torch.asinh(y) + self.second(y)
        return z, ids + 1, z.argmax(-1), self.seen * 2


def test_borders_hold_where_ops_are_left_between() -> None:
    def make() -> Any:
        return Between(), (torch.randn(3, 4), torch.tensor([1, 5]))

    given, model, args = lowered(make, *FLOAT32)
    start = model.seen.clone()
    [left] = given.plan.refusals
    assert given.graph.op(left.op).kind == "aten.asinh"
    assert "not supported" in left.reason.detail
    assert len(delegates(given)) == 2
    for reader in (eager(given), mil):
        model.seen.copy_(start)
        assert error(run(given, args, reader), model, args) < 1e-5
