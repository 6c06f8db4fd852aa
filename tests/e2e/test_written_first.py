"""Zeros that a cache starts from are stored where a call could read them, and only there."""

from __future__ import annotations

import pytest
import torch
from executorch.extension.llm.custom_ops import custom_ops  # noqa: F401  (registers the operators)
from torch import nn

import cede
from cede.running import load

CONTEXT, HEADS, SIZE = 4096, 2, 8
ZEROS = CONTEXT * HEADS * SIZE * 4


class Cached(nn.Module):
    """Attention over a cache of keys and values."""

    def __init__(self, reads: str = "", first: float = 0.0) -> None:
        super().__init__()
        self.reads = reads
        for name in ("keys", "values"):
            self.register_buffer(name, torch.full((1, CONTEXT, HEADS, SIZE), first))

    def forward(self, x: torch.Tensor, position: torch.Tensor) -> torch.Tensor:
        start = position[0].item()
        torch._check_is_size(start)
        torch._check(start < CONTEXT - 4)
        keys, values = self.get_buffer("keys"), self.get_buffer("values")
        torch.ops.llama.update_cache(x * 2, keys, start)
        torch.ops.llama.update_cache(x + 1, values, start)
        mask = torch.zeros(x.shape[1], CONTEXT) if self.reads == "mask" else None
        at = start + 1 if self.reads == "further" else start
        causal = mask is None
        y = torch.ops.llama.custom_sdpa(x, keys, values, at, mask, 0.0, causal)
        if self.reads == "elsewhere":
            y = y + keys.sum() + values.sum()
        return y


def lowered(model: nn.Module) -> cede.Lowered:
    inputs = (torch.randn(1, 3, HEADS, SIZE), torch.tensor([0]))
    return cede.lower(torch.export.export(model, inputs, strict=False), config="xnnpack-fp32")


def test_a_cache_that_is_written_before_it_is_read_has_no_initial_value_in_the_file() -> None:
    torch.manual_seed(0)
    model = Cached()
    made = lowered(model)
    assert len(made.buffer) < ZEROS
    xs = [torch.randn(1, 3, HEADS, SIZE) for _ in range(4)]
    program = load(made.buffer, {})
    for place, x in zip((0, 3, 6, 0), xs, strict=True):
        position = torch.tensor([place])
        torch.testing.assert_close(program.run([x, position])[0], model(x, position))


@pytest.mark.parametrize(
    "model",
    [Cached("mask"), Cached("further"), Cached("elsewhere"), Cached(first=0.5)],
    ids=["mask", "further", "elsewhere", "not zero"],
)
def test_a_cache_that_may_be_read_before_keeps_its_initial_value(model: nn.Module) -> None:
    assert len(lowered(model).buffer) > ZEROS
