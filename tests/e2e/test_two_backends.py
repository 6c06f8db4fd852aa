"""XNNPACK and OpenVINO in one program: planned, lowered, run in ExecuTorch's runtime, compared."""

from __future__ import annotations

import sys
from functools import cache
from typing import Any

import pytest
import torch
from executorch.backends.openvino.partitioner import OpenvinoPartitioner
from executorch.exir import to_edge_transform_and_lower
from executorch.exir.backend.compile_spec_schema import CompileSpec
from tests.zoo import ZOO, exported

import cede

if sys.platform != "linux":
    pytest.skip("ExecuTorch has the OpenVINO delegate on Linux only", allow_module_level=True)

LEAN = "resnet"
MODELS = [name if name == LEAN else pytest.param(name, marks=pytest.mark.slow) for name in ZOO]
WAYS = {
    "xnnpack first": ["backends=[xnnpack,openvino]"],
    "openvino first": ["backends=[openvino,xnnpack]"],
    "by cost": ["backends=[xnnpack,openvino]", "settle=cost"],
}
LEAN_WAYS = [
    pytest.param(way, marks=pytest.mark.slow) if way != "xnnpack first" else way for way in WAYS
]


@cache
def lowered(name: str, way: str) -> Any:
    return cede.lower(exported(name).program, config=cede.load_config(None, WAYS[way]))


def close(result: Any, name: str) -> None:
    model, args, _ = exported(name)
    with torch.no_grad():
        wanted = model(*args)
    got = cede.run(result.buffer, args)
    assert got.runtime == "executorch"
    torch.testing.assert_close(got.outputs[0], wanted, atol=1e-4, rtol=1e-4)


@pytest.mark.parametrize("way", LEAN_WAYS)
@pytest.mark.parametrize("name", MODELS)
def test_right_numbers(name: str, way: str) -> None:
    result = lowered(name, way)
    assert not result.plan.warnings
    close(result, name)


class Both(torch.nn.Module):
    """XNNPACK has no cumsum; the linears are kept whole for it, and OpenVINO takes those too."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.first = torch.nn.Linear(width, width)
        self.last = torch.nn.Linear(width, width)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.last(torch.relu(self.first(x)).cumsum(-1) / x.shape[-1]).square()


@pytest.mark.parametrize(
    ("way", "width", "wanted"),
    [
        ("xnnpack first", 8, ["xnnpack", "openvino", "xnnpack"]),
        ("openvino first", 8, ["openvino"]),
        ("by cost", 8, []),  # too small to be worth any launch
    ],
)
def test_delegates_of_one_program(way: str, width: int, wanted: list[str]) -> None:
    torch.manual_seed(0)
    model, x = Both(width).eval(), torch.randn(3, width)
    result = cede.export(model, (x,), config=cede.load_config(None, WAYS[way]))
    assert [given.backend for given in result.plan.delegations] == wanted
    [got] = cede.run(result.buffer, [x]).outputs
    torch.testing.assert_close(got, model(x), atol=1e-5, rtol=1e-5)


def test_cost_finds_large_work_worth_a_delegate() -> None:
    torch.manual_seed(0)
    model, x = Both(512).eval(), torch.randn(64, 512)
    result = cede.export(model, (x,), config=cede.load_config(None, WAYS["by cost"]))
    taken = {result.graph.op(op).kind for op in result.plan.delegation_of()}
    assert "aten.linear" in taken
    [got] = cede.run(result.buffer, [x]).outputs
    torch.testing.assert_close(got, model(x), atol=1e-4, rtol=1e-4)


class _Counted(Exception):
    pass


class _Stock(OpenvinoPartitioner):  # type: ignore[misc]
    """The stock partitioner, left as soon as it has tagged."""

    def partition(self, exported_program: Any) -> Any:
        self.result = super().partition(exported_program)
        nodes = exported_program.graph.nodes
        self.taken = {
            n.name for n in nodes if n.op == "call_function" and "delegation_tag" in n.meta
        }
        raise _Counted


@pytest.mark.slow
@pytest.mark.parametrize("name", ZOO)
def test_no_worse_than_the_stock_partitioner(name: str) -> None:
    stock = _Stock([CompileSpec("device", b"CPU")])
    with pytest.raises(_Counted):
        to_edge_transform_and_lower(exported(name).program, partitioner=[stock])
    plan = cede.plan(exported(name).program, "openvino")
    assert plan.graph is not None
    ids = {op.id for op in plan.graph.ops}
    refused = {row.op: row.reason for row in plan.refusals}
    assert all(reason.detail for reason in refused.values())
    for op in (stock.taken & ids) - set(plan.delegation_of()):
        assert refused[op].code.value in ("dtype", "shape"), f"{op}: {refused.get(op)}"
