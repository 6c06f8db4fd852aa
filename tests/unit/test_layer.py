"""`cede.layer`: names for what is no module, from forward to the delegation table."""

from __future__ import annotations

import pytest
import torch
from executorch.exir import to_edge
from executorch.exir.pass_base import ExportPass
from torch import nn

import cede
from cede.facts import read_graph


class Net(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.line, self.norm = nn.Linear(8, 8), nn.LayerNorm(8)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        with cede.layer("encoder"):
            with cede.layer("attention"):
                y = self.line(x)
            y = self.norm(y)
        return torch.nn.functional.gelu(y)


def test_contexts_nest_and_end() -> None:
    assert cede.current_layer() == ""
    with cede.layer("a") as outer, cede.layer("b.c") as inner:
        assert (outer, inner) == ("a", "a.b.c")
        assert cede.current_layer() == "a.b.c"
    assert cede.current_layer() == ""


def test_an_exception_inside_ends_the_context() -> None:
    with pytest.raises(ZeroDivisionError), cede.layer("a"):
        raise ZeroDivisionError
    assert cede.current_layer() == ""


def test_an_empty_name_is_refused() -> None:
    with pytest.raises(ValueError, match="needs a name"), cede.layer(""):
        pass


@pytest.mark.parametrize("strict", [False, True])
def test_the_path_stands_on_each_op_of_the_edge_program(strict: bool) -> None:
    program = torch.export.export(Net().eval(), (torch.randn(2, 8),), strict=strict)
    graph = read_graph(to_edge(program).exported_program())
    layers = {op.target: op.layer for op in graph.ops}
    assert layers["aten.addmm.default"] == "encoder.attention"
    assert layers["aten.native_layer_norm.default"] == "encoder"
    assert layers["aten.gelu.default"] == ""


def test_the_path_survives_saving(tmp_path: object) -> None:
    program = torch.export.export(Net().eval(), (torch.randn(2, 8),))
    torch.export.save(program, f"{tmp_path}/net.pt2")
    loaded = torch.export.load(f"{tmp_path}/net.pt2")
    graph = read_graph(to_edge(loaded).exported_program())
    assert {op.layer for op in graph.ops if op.kind == "aten.addmm"} == {"encoder.attention"}


def test_messages_about_an_op_name_its_layer() -> None:
    program = torch.export.export(Net().eval(), (torch.randn(2, 8),))
    graph = read_graph(to_edge(program).exported_program())
    where = next(op.where for op in graph.ops if op.kind == "aten.addmm")
    assert "in module line" in where
    assert "in layer encoder.attention" in where
    assert "test_layer.py:" in where


def test_nodes_inserted_by_hand_get_the_path() -> None:
    module = torch.export.export(Net().eval(), (torch.randn(2, 8),)).graph_module
    output = module.graph.output_node()
    value = output.args[0][0]
    with cede.layer("fix", module), module.graph.inserting_before(output):
        relu = module.graph.call_function(torch.ops.aten.relu.default, (value,))
    with module.graph.inserting_before(output):
        other = module.graph.call_function(torch.ops.aten.relu.default, (relu,))
    assert relu.meta["custom"]["cede_layer"] == "fix"
    assert "custom" not in other.meta


def test_nodes_of_a_tracing_pass_get_the_path() -> None:
    class Twice(ExportPass):
        def call_operator(self, op, args, kwargs, meta):  # type: ignore[no-untyped-def]
            result = super().call_operator(op, args, kwargs, meta)
            if "gelu" not in str(op):
                return result
            with cede.layer("twice"):
                fresh = type(meta)({})
                return super().call_operator(op, (result,), kwargs, fresh)

    program = torch.export.export(Net().eval(), (torch.randn(2, 8),))
    edge = to_edge(program).transform([Twice()])
    graph = read_graph(edge.exported_program())
    assert [op.layer for op in graph.ops if op.kind == "aten.gelu"] == ["", "twice"]
