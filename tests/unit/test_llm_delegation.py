"""The table that `debug.verbose` prints."""

from __future__ import annotations

import pytest
import torch
from executorch.devtools.backend_debug import get_delegation_info
from executorch.exir import to_edge_transform_and_lower
from torch import nn

import cede
from cede.reporting.delegation import delegation, delegation_table, layers


class Block(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.ModuleList(nn.Linear(8, 8) for _ in range(3))
        self.norm = nn.LayerNorm(8)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        for layer in self.layers:
            x = torch.cumsum(layer(x), 0)
        return self.norm(x)


def test_the_counts_are_those_of_executorch() -> None:
    program = torch.export.export(Block().eval(), (torch.randn(2, 8),))
    partitioner = cede.partitioner("xnnpack")
    edge = to_edge_transform_and_lower(program, partitioner=[partitioner])
    info = get_delegation_info(edge.exported_program().graph_module)
    report = partitioner.report()
    said = delegation(report)
    assert said.startswith(info.get_summary().replace("  ", " "))
    rows = delegation_table(report).rows
    whole = info.num_delegated_nodes + info.num_non_delegated_nodes
    assert sum(int(row[1]) for row in rows) == whole
    [linear] = [row for row in rows if row[0] == "aten_linear_default"]
    assert linear[1:] == ("3", "xnnpack", "layers.0-2", "")
    [left] = [row for row in rows if row[0] == "aten_cumsum_default"]
    assert left[2] == "-"
    assert "no rule for aten.cumsum.default" in left[4]


@pytest.mark.parametrize(
    ("modules", "said"),
    [
        (["layers.0.wq", "layers.1.wq", "layers.3", "norm.a", ""], "layers.0-1,3, norm"),
        (["model.blocks.7.ffn"], "model.blocks.7"),
        ([""], ""),
    ],
)
def test_layers_are_told_as_ranges(modules: list[str], said: str) -> None:
    assert layers(modules) == said
