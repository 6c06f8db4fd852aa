"""Lowering with shortcuts gives what ExecuTorch's own steps give."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest
import torch
from executorch.exir.backend import backend_api
from executorch.exir.pass_base import _ExportPassBase
from tests.zoo import exported
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.export import ExportedProgram, default_decompositions
from torch.fx import GraphModule

import cede
from cede.config import Config, LoweringConfig
from cede.lowering import inside_executorch
from cede.lowering.inside_executorch import decompose, fakes, imports, verify, versions

QUICK = Config(backends=["xnnpack"])
STOCK = Config(backends=["xnnpack"], lowering=LoweringConfig(stock=True))


class Attention(torch.nn.Module):
    """Attention with a mask, so that the compiler's pattern is there; a scalar and a batch norm."""

    def __init__(self) -> None:
        super().__init__()
        self.conv = torch.nn.Conv1d(8, 8, 3, padding=1)
        self.norm = torch.nn.BatchNorm1d(8)
        self.mask = torch.nn.Buffer(torch.zeros(4, 4))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = torch.relu(self.norm(self.conv(x))).transpose(1, 2)[None] * 2.0
        y = torch.nn.functional.scaled_dot_product_attention(x, x, x, attn_mask=self.mask)
        return torch.nn.functional.interpolate(y, scale_factor=2.0, mode="bilinear")


def _same(program: ExportedProgram, args: tuple[Any, ...]) -> None:
    quick, stock = cede.lower(program, config=QUICK), cede.lower(program, config=STOCK)
    assert quick.plan == stock.plan
    assert len(quick.buffer) <= len(stock.buffer)
    ours, theirs = (cede.run(each.buffer, list(args)).outputs for each in (quick, stock))
    assert len(ours) == len(theirs) > 0
    for one, other in zip(ours, theirs, strict=True):
        torch.testing.assert_close(one, other, rtol=0, atol=0)


@pytest.mark.parametrize("name", ["torchcrepe", "llama"])
def test_a_model_comes_out_the_same(name: str) -> None:
    _, args, program = exported(name)
    _same(program, args)


def test_patterns_and_constants_come_out_the_same() -> None:
    args = (torch.randn(1, 8, 4),)
    _same(torch.export.export(Attention().eval(), args), args)


def test_quantized_comes_out_the_same() -> None:
    args = (torch.randn(1, 3, 8, 8),)
    model = torch.nn.Sequential(torch.nn.Conv2d(3, 4, 3), torch.nn.ReLU(), torch.nn.Flatten(),
                                torch.nn.Linear(144, 5)).eval()  # fmt: skip
    quantized = cede.quantize_program(model, args, "xnnpack", calibration=[args])[0]
    _same(quantized, args)


class Views(torch.nn.Module):
    """Weights that are parts of a larger one."""

    def __init__(self) -> None:
        super().__init__()
        whole = torch.randn(8, 8)
        self.register_buffer("rows", whole[2:])
        self.register_buffer("row", whole[4])

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        return x[:, :6] @ self.rows, x + self.row


def test_parts_of_weights_come_out_the_same() -> None:
    args = (torch.randn(2, 8),)
    program = torch.export.export(Views(), args)
    _same(program, args)
    assert cede.check(cede.lower(program, config=STOCK), [args]).passed


class Tokens(torch.nn.Module):
    """Of any number of tokens, with int8 activations; a size that data decide."""

    def __init__(self) -> None:
        super().__init__()
        self.one, self.two = torch.nn.Linear(64, 64), torch.nn.Linear(64, 32)

    def forward(self, x: torch.Tensor, start: torch.Tensor) -> torch.Tensor:
        first = start.item()
        torch._check(first >= 0)
        torch._check(first < 8)
        y = torch.nn.functional.silu(self.one(x)) + torch.ones(16).narrow(0, first, 8)[0]
        return self.two(y)


def test_integers_of_torchao_come_out_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    args = (torch.randn(1, 3, 64), torch.tensor(1))
    model, _ = cede.quantize_model(Tokens().eval(), "8da4w")
    shapes = ({1: torch.export.Dim("tokens", min=2, max=8)}, None)
    again = Counter[str]()
    stock = fakes._again, ExportedProgram.run_decompositions

    def count(name: str, stock: Any) -> Any:
        def counted(*given: Any) -> Any:
            again[name] += 1
            return stock(*given)

        return counted

    monkeypatch.setattr(fakes, "_again", count("results", stock[0]))
    monkeypatch.setattr(ExportedProgram, "run_decompositions", count("runs", stock[1]))
    program = torch.export.export(model, args, dynamic_shapes=shapes)
    _same(program, args)
    assert again["results"] > 0
    monkeypatch.setitem(again, "runs", 0)
    with inside_executorch.shortcuts():
        made = program.run_decompositions({}).run_decompositions(default_decompositions())
        # `sym_size` is left, and would be taken apart to itself
        assert made.run_decompositions(default_decompositions()) is made
    assert again["runs"] == 2


@pytest.mark.parametrize("order", [(0, 1), (1, 0)])
def test_results_are_kept_by_strides(order: tuple[int, int]) -> None:
    op, block = torch.ops.torchao.quantize_affine.default, [1, 1, 1, 4]
    with inside_executorch.shortcuts():
        mode = FakeTensorMode()
        with mode:
            # both are contiguous: a dimension of size 1 may have any stride
            given = [torch.empty_strided((2, 1, 3, 4), s) for s in ((12, 12, 4, 1), (12, 1, 4, 1))]
            scale, zero = torch.empty(2, 1, 3, 1), torch.empty(2, 1, 3, 1, dtype=torch.int8)
        for i in (*order, *order):
            args = (given[i], block, scale, zero, torch.int8, -128, 127)
            assert mode.dispatch(op, (), args, {}).stride() == given[i].stride()
        assert any(made is not None for made in fakes._known[mode].values())


def test_nothing_stays_changed() -> None:
    before = GraphModule.recompile, _ExportPassBase.call, vars(backend_api).copy()
    lowered = cede.lower(exported("torchcrepe").program, config=QUICK)
    assert before == (GraphModule.recompile, _ExportPassBase.call, vars(backend_api))
    code = lowered.edge.graph_module.code  # made when it is looked at
    assert "executorch_call_delegate" in code


def test_another_version_is_lowered_by_stock_and_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(versions._KNOWN, "executorch", "1.4.0")
    with inside_executorch.shortcuts():
        assert GraphModule.recompile.__module__ == "torch.fx.graph_module"
    lowered = cede.lower(exported("torchcrepe").program, config=QUICK)
    assert [text for text in lowered.warnings if "no shortcuts for executorch" in text]


def test_the_compilers_patterns_are_those_that_are_left_out() -> None:
    from executorch.backends.xnnpack.partition.graphs import bilinear_2d, sdpa

    from cede.backends.xnnpack.shortcuts import ATTENTION, BILINEAR

    def ops(module: GraphModule) -> set[str]:
        calls = (n.target for n in module.graph.nodes if n.op == "call_function")
        return {target.__name__ for target in calls}

    assert all(ops(graph) == BILINEAR for graph in bilinear_2d.get_graphs())
    assert all(ops(graph) >= ATTENTION for graph in sdpa.get_graphs())


@torch.library.custom_op("cede_stock_test::add_one_", mutates_args=["x"])
def add_one_(x: torch.Tensor) -> None:
    x.add_(1)


class Writes(torch.nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = x.clone()
        add_one_(y)
        return y * 2


def test_ops_that_write_are_given_to_inductor() -> None:
    program = torch.export.export(Writes(), (torch.ones(2),)).run_decompositions({})
    assert "auto_functionalized" in str(program.graph)
    imports.decompose_auto_functionalized(program.graph)
    targets = {str(node.target) for node in program.graph.nodes}
    assert "cede_stock_test.add_one_.default" in targets
    assert "auto_functionalized" not in str(program.graph)


def test_the_dialects_data_is_read_the_same() -> None:
    from executorch.exir.dialects.edge import _ops

    with imports._quick_yaml():
        quick = _ops._load_edge_dialect_info()
    assert quick == _ops._edge_dialect_info != {}
    assert Counter(map(type, quick.values())) == {dict: len(quick)}


def test_no_graph_is_held_on_to_afterwards() -> None:
    cede.lower(torch.export.export(torch.nn.Linear(4, 4), (torch.randn(1, 4),)), config=QUICK)
    assert not decompose._functional
    assert not verify._seen
    assert not fakes._known
