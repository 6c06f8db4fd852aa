"""One exported program is lowered several times in one process, also where symbols are left."""

from __future__ import annotations

import pytest
import torch
from executorch.exir import to_edge_transform_and_lower
from torch import nn

import cede
from cede.lowering.inside_executorch.pending import forget_pending


class Sized(nn.Module):
    """A size that depends on data, and rows of any number."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.lin = nn.Linear(32, 32, bias=False)

    def forward(self, x: torch.Tensor, at: torch.Tensor) -> torch.Tensor:
        start = at.item()
        torch._check(start >= 0)
        torch._check(start < 2)
        return torch.cumsum(self.lin(x).narrow(0, start, 1), 1) + torch.relu(x).nonzero().sum()


def program() -> torch.export.ExportedProgram:
    model, _ = cede.quantize_model(Sized().eval(), cede.config.QuantizeConfig(mode="8da4w"))
    rows = torch.export.Dim("rows", min=2, max=8)
    args = torch.randn(4, 32), torch.tensor(1)
    with torch.no_grad():
        return torch.export.export(model, args, dynamic_shapes={"x": {0: rows}, "at": None})


@pytest.mark.parametrize("way", ["cede", pytest.param("script", marks=pytest.mark.slow)])
def test_again_and_again(way: str) -> None:
    given = program()
    config = cede.load_config(None, ["backends=[xnnpack]", "lowering.cache=false"])
    made = []
    for _ in range(3):
        if way == "cede":
            made.append(cede.lower(given, config=config).buffer)
            continue
        ours = cede.partitioner(config=config)
        edge = to_edge_transform_and_lower(given, partitioner=[ours])
        made.append(bytes(edge.to_executorch().buffer))
    assert len({len(each) for each in made}) == 1
    x, at = torch.linspace(-1, 1, 96).reshape(3, 32), torch.tensor(1)
    for buffer in (made[0], made[-1]):
        got = cede.run(buffer, [x, at]).outputs[0]
        torch.testing.assert_close(got, given.module()(x, at), atol=5e-2, rtol=5e-2)


def test_symbols_of_another_conversion_are_forgotten() -> None:
    from torch._guards import detect_fake_mode

    given = program()
    mode = detect_fake_mode([node.meta.get("val") for node in given.graph.nodes])
    assert mode is not None
    assert mode.shape_env is not None
    mode.shape_env.create_unbacked_symint()
    assert mode.shape_env.pending_fresh_unbacked_symbols
    forget_pending(given)
    assert mode.shape_env.pending_fresh_unbacked_symbols == []
    mode.shape_env.create_unbacked_symint()
    config = cede.load_config(None, ["backends=[xnnpack]", "lowering.cache=false"])
    assert cede.lower(given, config=config).buffer
