"""What the MLX compiler made of a claimed subgraph, read back and executed with `mlx`."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

import pytest
import torch

from .apple_delegates import MADE, delegates, eager, error, kinds, lowered, made, run, subgraphs
from .mlx_program import program_of

if TYPE_CHECKING:
    from collections.abc import Callable

    from cede.running.pte import Delegate

MLX = ("backends=[metal]", "options.metal.engine=mlx")
STANDS_FOR = {
    "AddmmNode": ("aten.linear", "aten.addmm", "aten.mm"),
    "Conv2DNode": ("aten.conv2d", "aten.convolution"),
    "GeluNode": ("aten.gelu",),
    "LayerNormNode": ("aten.layer_norm", "aten.native_layer_norm"),
    "RMSNormNode": ("aten.rms_norm",),
    "SdpaNode": ("aten.scaled_dot_product_attention",),
    "SoftmaxNode": ("aten.softmax", "aten._softmax"),
}


def mlx(delegate: Delegate) -> Callable[..., list[torch.Tensor]]:
    program = program_of(delegate)
    return lambda *values: program(*values[: len(program.inputs)])


@pytest.mark.parametrize("name", MADE)
def test_the_delegate_holds_the_claimed_subgraph(name: str) -> None:
    given, model, _ = made(name, *MLX)
    [delegate], [subgraph] = delegates(given), subgraphs(given)
    assert (delegate.id, delegate.specs) == ("MLXBackend", (("engine", b"mlx"),))
    read, claimed = program_of(delegate), kinds(given)
    for node, operators in STANDS_FOR.items():
        assert read.ops[node] == sum(claimed.count(op) for op in operators), node
    program = subgraph.original_module
    values = {node.name: node.meta["val"] for node in program.graph.nodes if "val" in node.meta}
    signature = program.graph_signature
    slots = (*read.inputs, *read.outputs)
    for slot, border in zip(slots, (*signature.user_inputs, *signature.user_outputs), strict=True):
        assert read.metas[slot].shape == tuple(values[border].shape)
        assert read.metas[slot].dtype == values[border].dtype
    held = {read.names[slot]: value for slot, value in read.constants.items()}
    for parameter, weight in model.named_parameters():
        if weight.dim() == 4:  # the channels of a convolution's weight stand last
            stored = held[f"{parameter}_channel_last"].permute(0, 3, 1, 2)
        else:
            stored = held[parameter]
        assert torch.equal(stored, weight.detach()), parameter


@pytest.mark.parametrize("name", MADE)
def test_the_whole_program_gives_eager_numbers(name: str) -> None:
    given, model, args = made(name, *MLX)
    assert error(run(given, args, eager(given)), model, args) < 1e-6


@pytest.mark.parametrize("name", MADE)
def test_mlx_computes_eager_numbers(name: str) -> None:
    pytest.importorskip("mlx.core", reason="mlx has no wheel for this system")
    given, model, args = made(name, *MLX)
    assert error(run(given, args, mlx), model, args) < 1e-5


def test_the_other_engine_is_core_ml_on_the_gpu() -> None:
    given, model, args = made("mlp", "backends=[metal]", "options.metal.engine=coreml")
    [delegate] = delegates(given)
    assert delegate.id == "CoreMLBackend"
    assert dict(delegate.specs)["compute_units"] == b"cpu_and_gpu"
    assert error(run(given, args, eager(given)), model, args) < 1e-6


def test_a_plan_keeps_its_engine_whatever_the_options_say_later() -> None:
    from cede import api
    from cede.config import load_config

    given, _, _ = made("mlp", *MLX)
    config = load_config(overrides=["backends=[metal]", "options.metal.engine=coreml"])
    again = api.lower(given.source, given.plan, config)
    assert [delegate.id for delegate in delegates(again)] == ["MLXBackend"]


def test_auto_takes_mlx_where_it_can_compile() -> None:
    given, _, _ = made("mlp", "backends=[metal]")
    assert [delegate.id for delegate in delegates(given)] == ["MLXBackend"]


@pytest.mark.skipif(sys.platform == "darwin", reason="the delegate can run here")
def test_running_elsewhere_is_refused_with_where_to_go() -> None:
    from cede import api
    from cede.errors import LoweringError

    given, _, args = made("mlp", *MLX)
    with pytest.raises(LoweringError, match=r"MLXBackend of backend metal can't run here.*macOS"):
        api.run(given.buffer, args)


class Lengths(torch.nn.Module):
    """Sequences of any length, reshaped by their size."""

    def __init__(self) -> None:
        super().__init__()
        self.inner = torch.nn.Linear(8, 8)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        parts = self.inner(x).view(x.shape[0], x.shape[1], 2, 4).transpose(1, 2)
        return torch.softmax(parts @ parts.transpose(-1, -2), -1) @ parts


def test_a_dynamic_length_is_computed_at_run_time() -> None:
    pytest.importorskip("mlx.core", reason="mlx has no wheel for this system")
    from cede import api
    from cede.config import load_config

    model = Lengths().eval()
    length = torch.export.Dim("length", min=2, max=16)
    with torch.no_grad():
        program = torch.export.export(model, (torch.randn(1, 6, 8),), dynamic_shapes=({1: length},))
    given = api.lower(program, config=load_config(overrides=list(MLX)))
    for size in (3, 16):
        args = (torch.randn(1, size, 8),)
        assert error(run(given, args, mlx, sizes=False), model, args) < 1e-5


def test_lowered_twice_is_the_same_to_the_byte() -> None:
    first, _, _ = made("mlp", *MLX)
    again, _, _ = lowered(MADE["mlp"], *MLX)
    assert first.buffer == again.buffer
