"""Attempts to lower a program, one after another, leave nothing to the next."""

from __future__ import annotations

from typing import Any

import torch
from executorch.examples.models.llama.llama_transformer import construct_transformer
from executorch.examples.models.llama.model_args import ModelArgs
from executorch.exir import to_edge_transform_and_lower
from torch import nn

import cede
from cede.config import load_config


class Halves(nn.Module):
    """Two layers whose weights are halves of one tensor, as buffers."""

    def __init__(self) -> None:
        super().__init__()
        one, two = torch.randn(16, 8).chunk(2)
        self.register_buffer("one", one)
        self.register_buffer("two", two)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return nn.functional.linear(x, self.one) - 2 * nn.functional.linear(x, self.two)


def test_a_second_attempt_takes_no_notice_of_sizes_of_the_first() -> None:
    torch.manual_seed(0)
    sizes: dict[str, Any] = {"dim": 16, "hidden_dim": 16, "n_heads": 2, "vocab_size": 16,
                             "max_context_len": 8, "max_seq_len": 8, "use_kv_cache": True,
                             "enable_dynamic_shape": True}  # fmt: skip
    model = construct_transformer(ModelArgs(**sizes)).eval().requires_grad_(False)
    tokens, place = torch.tensor([[3, 4]]), torch.tensor([0])
    program = torch.export.export(model, (tokens, {"input_pos": place}))
    config = load_config("xnnpack-fp32", ["policy.exclude=['op:aten.linear*']"])
    lowered = cede.lower(program, config=config)
    [got] = cede.run(lowered.buffer, [tokens, place]).outputs
    torch.testing.assert_close(got, model(tokens, {"input_pos": place}))


def test_weights_that_are_views_of_one_tensor_are_stored_as_they_are() -> None:
    torch.manual_seed(0)
    model, x = Halves().eval(), torch.randn(2, 8)
    for made in (model, _as_parameters(model)):
        lowered = cede.lower(torch.export.export(made, (x,)), config="xnnpack-fp32")
        assert lowered.plan.delegations
        [got] = cede.run(lowered.buffer, [x]).outputs
        torch.testing.assert_close(got, model(x))
        ours = cede.partitioner(config="xnnpack-fp32")
        edge = to_edge_transform_and_lower(torch.export.export(made, (x,)), partitioner=[ours])
        assert ours.plan.delegations
        [got] = cede.run(bytes(edge.to_executorch().buffer), [x]).outputs
        torch.testing.assert_close(got, model(x))


def _as_parameters(model: nn.Module) -> nn.Module:
    made = Halves().eval()
    for name in ("one", "two"):
        value = model.get_buffer(name)
        delattr(made, name)
        made.register_parameter(name, nn.Parameter(value, requires_grad=False))
    return made
