"""What is claimed for Core ML: what the stock partitioner takes, minus what comes out wrong."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
import torch
from executorch.backends.apple.coreml.partition import CoreMLPartitioner as Stock
from executorch.exir import to_edge
from torch import nn
from torch.nn import functional

from cede.backends.coreml.options import CoreMLOptions, Precision, Target
from cede.backends.coreml.partitioner import CoreMLPartitioner
from cede.facts import read_graph
from cede.types import Claim, Code, Program, Refusal

from .apple_delegates import MADE, error, lowered, run
from .coreml_program import model_of

if TYPE_CHECKING:
    from collections.abc import Callable

FLOAT32 = CoreMLOptions(compute_precision=Precision.float32)


class Calls(nn.Module):
    def __init__(self, call: Callable[..., Any]) -> None:
        super().__init__()
        self.call = call

    def forward(self, *given: torch.Tensor) -> Any:
        return self.call(*given)


def edge(model: nn.Module, *args: torch.Tensor) -> Any:
    with torch.no_grad():
        program = torch.export.export(model.eval(), args)
    # As ExecuTorch's own path does, nothing that Core ML wants whole is decomposed.
    keep = Stock().ops_to_not_decompose(program)[0]
    from executorch.exir import EdgeCompileConfig

    config = EdgeCompileConfig(preserve_ops=keep, _check_ir_validity=False)
    return to_edge(program, compile_config=config).exported_program()


def answers(program: Any, options: CoreMLOptions = FLOAT32) -> list[Claim | Refusal]:
    view = Program(graph=read_graph(program), exported=program, options=options)
    return list(CoreMLPartitioner().claim(view))


def stock(program: Any) -> set[str]:
    Stock().partition(program)
    nodes = (node for node in program.graph.nodes if node.op == "call_function")
    return {node.name for node in nodes if "delegation_tag" in node.meta}


@pytest.mark.parametrize("name", MADE)
def test_every_op_that_the_stock_partitioner_takes_is_claimed(name: str) -> None:
    model, args = MADE[name]()
    given = answers(edge(model, *args))
    claimed = {op for answer in given if isinstance(answer, Claim) for op in answer.ops}
    vetoed = {one.op for one in given if isinstance(one, Refusal) and "rms_norm" in one.op}
    assert claimed | vetoed == stock(edge(model, *args))
    assert len(vetoed) == (name == "attention")  # and decomposed on cede's own path


x, y = torch.randn(1, 2, 8, 8), torch.randn(2, 3)
ints, kernel = torch.tensor([1, 5, 3]), torch.randn(3, 2, 3, 3)
WRONG: dict[str, tuple[Callable[..., Any], tuple[torch.Tensor, ...], Code]] = {
    "bfloat16": (lambda a: a * a, (y.bfloat16(),), Code.DTYPE),
    "float64": (lambda a: a * a, (y.double(),), Code.DTYPE),
    "wide": (lambda a: a < 2**40, (ints,), Code.DTYPE),
    "rank": (lambda a: a.permute(5, 4, 3, 2, 1, 0), (torch.randn(1, 1, 1, 2, 2, 2),), Code.SHAPE),
    "dilation": (lambda a: functional.max_pool2d(a, 2, 1, dilation=2), (x,), Code.ARGUMENT),
    "divisor": (lambda a: functional.avg_pool2d(a, 2, divisor_override=3), (x,), Code.ARGUMENT),
    "unbatched": (lambda a: functional.conv2d(a[0], kernel), (x,), Code.SHAPE),
    "vector": (lambda a: a @ a[0], (y,), Code.SHAPE),
    "scaled": (lambda a: torch.addmm(a, a @ a.T, a, alpha=2), (y,), Code.ARGUMENT),
    "circular": (lambda a: functional.pad(a, (1, 1), "circular"), (x[0],), Code.ARGUMENT),
    "cut": (lambda a: functional.pad(a, (-1, 1)), (x,), Code.ARGUMENT),
    "bits": (lambda a: a & 3, (ints,), Code.DTYPE),
    "reciprocal": (lambda a: a.reciprocal(), (y,), Code.DECLINED),
    "softplus": (lambda a: functional.softplus(a, threshold=1.0), (y,), Code.ARGUMENT),
    "gelu": (lambda a: functional.gelu(a, approximate="tanh"), (y,), Code.ARGUMENT),
}


@pytest.mark.parametrize("name", WRONG)
def test_what_comes_out_wrong_is_refused(name: str) -> None:
    call, args, code = WRONG[name]
    program = edge(Calls(call), *args)
    refused = [one for one in answers(program) if isinstance(one, Refusal)]
    assert code in {one.reason.code for one in refused}
    assert {one.op for one in refused if one.reason.code is code} & stock(program)  # it takes it


@pytest.mark.parametrize("name", ["vector", "scaled", "softplus", "reciprocal"])
def test_and_then_the_program_gives_eager_numbers(name: str) -> None:
    call, args, _ = WRONG[name]
    option = "options.coreml.compute_precision=float32"
    given, model, args = lowered(lambda: (Calls(call), args), "backends=[coreml]", option)

    def reader(delegate: Any) -> Any:
        read = model_of(delegate.data)
        return lambda *values: read(*values[: len(read.inputs)])

    assert error(run(given, args, reader), model, args) < 1e-5


def test_tanh_gelu_is_taken_where_half_precision_hides_the_difference() -> None:
    call, args, _ = WRONG["gelu"]
    [answer] = answers(edge(Calls(call), *args), CoreMLOptions())
    assert isinstance(answer, Claim)


@pytest.mark.parametrize(("target", "taken"), [(Target.iOS17, False), (Target.iOS18, True)])
def test_older_systems_get_no_delegate_without_inputs(target: Target, taken: bool) -> None:
    program = edge(Calls(lambda a: a + torch.arange(3)), ints)
    given = answers(program, CoreMLOptions(minimum_deployment_target=target))
    claimed = {op for answer in given if isinstance(answer, Claim) for op in answer.ops}
    assert any("arange" in op for op in claimed) is taken
