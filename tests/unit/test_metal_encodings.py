"""Weights in K-quants are claimed by MLX as they are, and mean what they meant."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
import torch

from cede import api
from cede.quant import quantize_weights

from .apple_delegates import delegates, error, kinds, run
from .mlx_program import program_of
from .test_metal_delegate import MLX, mlx

if TYPE_CHECKING:
    from cede.lowering import Lowered

COREML = ("backends=[metal]", "options.metal.engine=coreml")

IDS = torch.randint(0, 64, (2, 5), generator=torch.Generator().manual_seed(0))


class Net(torch.nn.Module):
    """A linear layer with a bias, one without, and an embedding."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.words = torch.nn.Embedding(64, 256)
        self.up, self.down = torch.nn.Linear(256, 512), torch.nn.Linear(512, 32, bias=False)

    def forward(self, ids: torch.Tensor) -> torch.Tensor:
        return self.down(torch.relu(self.up(self.words(ids))))


def lowered(encoding: str, *config: str) -> tuple[torch.nn.Module, Lowered]:
    model = Net().eval()
    quantize_weights(model, encoding)
    program = torch.export.export(model, (IDS,))
    return model, api.lower(program, config=api.load_config(None, list(config)))


@pytest.mark.parametrize("encoding", ["q4_k", "q5_k"])
def test_mlx_computes_with_its_own_blocks_of_the_same_numbers(encoding: str) -> None:
    pytest.importorskip("mlx.core", reason="mlx has no wheel for this system")
    model, given = lowered(encoding, *MLX)
    assert kinds(given) == ["cede.qembedding", "cede.qmatmul", "aten.relu", "cede.qmatmul"]
    assert not given.plan.warnings
    assert error(run(given, (IDS,), mlx), model, (IDS,)) < 1e-6
    assert len(given.buffer) < 656_000 / 4  # bytes of the weights as float32


def test_q6_k_is_stored_as_it_is() -> None:
    model, given = lowered("q6_k", *MLX)
    assert not given.plan.warnings
    [delegate] = delegates(given)
    read = program_of(delegate)
    held = {read.names[slot]: value for slot, value in read.constants.items()}
    for name, encoded in model.named_buffers():
        assert torch.equal(held[name], encoded), name


def test_others_are_decoded_and_told() -> None:
    for encoding, config in (("q4_0", MLX), ("q4_k", COREML)):
        _, given = lowered(encoding, *config)
        assert "cede.qmatmul" not in kinds(given)
        assert "decoded 3 encoded weights" in given.plan.warnings[0]
