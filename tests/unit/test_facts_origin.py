"""Which operator of the exported program an op was decomposed from."""

from __future__ import annotations

import io

import pytest
import torch
from torch import nn

from cede.facts import read_graph


class Net(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.linear, self.norm = nn.Linear(4, 4), nn.GroupNorm(2, 4)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.relu(self.norm(self.linear(x)))


def origins(program: torch.export.ExportedProgram) -> dict[str, set[str]]:
    found: dict[str, set[str]] = {}
    for op in read_graph(program).ops:
        found.setdefault(op.origin, set()).add(op.kind)
    return found


@pytest.mark.parametrize("strict", [False, True])
def test_parts_know_the_operator_that_they_come_from(strict: bool) -> None:
    program = torch.export.export(Net().eval(), (torch.randn(2, 4),), strict=strict)
    assert set(origins(program)) == {""}
    found = origins(program.run_decompositions())
    assert found["aten.linear.default"] == {"aten.permute", "aten.addmm"}
    assert "aten.native_group_norm" in found["aten.group_norm.default"]
    assert "aten.relu" in found[""]


def test_a_loaded_program_has_what_was_saved() -> None:
    file = io.BytesIO()
    torch.export.save(torch.export.export(Net().eval(), (torch.randn(2, 4),)), file)
    file.seek(0)
    found = origins(torch.export.load(file).run_decompositions())
    assert found["aten.linear.default"] == {"aten.permute", "aten.addmm"}


def test_it_is_no_part_of_the_fingerprint() -> None:
    program = torch.export.export(Net().eval(), (torch.randn(2, 4),)).run_decompositions()
    before = read_graph(program).fingerprint
    for node in program.graph.nodes:
        node.meta.pop("from_node", None)
    assert set(origins(program)) == {""}
    assert read_graph(program).fingerprint == before
