"""What is claimed for MLX: what the stock partitioner takes, minus what comes out wrong."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
import torch
from executorch.exir import EdgeCompileConfig, to_edge
from torch import nn
from torch.nn import functional

from cede.backends.metal.engines import Engine, MetalOptions
from cede.backends.metal.generated import import_mlx
from cede.backends.metal.partitioner import MetalPartitioner
from cede.facts import read_graph
from cede.types import Claim, Code, Program, Refusal

from .apple_delegates import MADE, error, lowered, run
from .mlx_program import program_of

if TYPE_CHECKING:
    from collections.abc import Callable

OPTIONS = MetalOptions(engine=Engine.mlx)


class Calls(nn.Module):
    def __init__(self, call: Callable[..., Any]) -> None:
        super().__init__()
        self.call = call

    def forward(self, *given: torch.Tensor) -> Any:
        return self.call(*given)


def stock() -> Any:
    import_mlx()
    from executorch.backends.mlx.partitioner import MLXPartitioner

    return MLXPartitioner()


def edge(model: nn.Module, *args: torch.Tensor) -> Any:
    with torch.no_grad():
        program = torch.export.export(model.eval(), args)
    config = EdgeCompileConfig(
        preserve_ops=stock().ops_to_not_decompose(program)[0], _check_ir_validity=False
    )
    return to_edge(program, compile_config=config).exported_program()


def answers(program: Any) -> list[Claim | Refusal]:
    view = Program(graph=read_graph(program), exported=program, options=OPTIONS)
    return list(MetalPartitioner().claim(view))


def supported(program: Any) -> set[str]:
    """What the stock partitioner's own check takes, asked directly."""
    stock()
    from executorch.backends.mlx.partitioner import MLXOperatorSupport

    check = MLXOperatorSupport(program, [])
    nodes = (node for node in program.graph.nodes if node.op == "call_function")
    return {node.name for node in nodes if check.is_node_supported({}, node)}


@pytest.mark.parametrize("name", MADE)
def test_every_op_that_the_stock_partitioner_takes_is_claimed(name: str) -> None:
    model, args = MADE[name]()
    given = answers(edge(model, *args))
    claimed = {op for answer in given if isinstance(answer, Claim) for op in answer.ops}
    assert claimed == supported(edge(model, *args)) != set()


def test_an_op_without_a_handler_is_refused_with_that_reason() -> None:
    program = edge(Calls(lambda a: a.erfinv() + 1), torch.rand(3))
    [refused] = [one for one in answers(program) if isinstance(one, Refusal)]
    assert refused.reason.code is Code.UNKNOWN_OP
    assert "no handler" in refused.reason.detail


def test_the_stock_partitioner_still_looks_at_its_callers() -> None:
    with pytest.raises(RuntimeError, match="to_edge_transform_and_lower"):
        stock().partition(edge(nn.ReLU(), torch.randn(2)))


x, y = torch.randn(2, 3, 6, 6), torch.randn(5, 3)
ints, kernel = torch.tensor([[1, 0], [2, 4]]), torch.randn(4, 3, 3, 3)
WRONG: dict[str, tuple[Callable[..., Any], tuple[torch.Tensor, ...], Code]] = {
    "descending": (lambda a: tuple(a.sort(1, descending=True)), (y,), Code.ARGUMENT),
    "smallest": (lambda a: tuple(a.topk(2, 1, largest=False)), (y,), Code.ARGUMENT),
    "unbatched": (lambda a: functional.conv2d(a[0], kernel), (x,), Code.SHAPE),
    "cut": (lambda a: functional.pad(a, (-1, 1)), (x,), Code.ARGUMENT),
    "rank": (lambda a, i: a[i], (y, ints), Code.SHAPE),
    "inner": (lambda a, i: a[:, i[0], i[1]], (torch.randn(2, 5, 5), ints), Code.SHAPE),
    "mask": (lambda a: a[a > 0], (y,), Code.DTYPE),
    "arange": (lambda a: a + torch.arange(0, 1.5, 0.5), (y,), Code.ARGUMENT),
    "power": (lambda a: a**0.5, (ints,), Code.DTYPE),
    "bound": (lambda a, i: a.clamp(0, 1)[0] + y[i.clamp(0, 1)[0]], (y, ints), Code.DTYPE),
}


@pytest.mark.parametrize("name", WRONG)
def test_what_comes_out_wrong_is_refused(name: str) -> None:
    call, args, code = WRONG[name]
    program = edge(Calls(call), *args)
    refused = [one for one in answers(program) if isinstance(one, Refusal)]
    assert code in {one.reason.code for one in refused}
    assert {one.op for one in refused if one.reason.code is code} & supported(program)


@pytest.mark.parametrize("name", ["smallest", "rank", "inner", "bound"])
def test_and_then_the_program_gives_eager_numbers(name: str) -> None:
    pytest.importorskip("mlx.core", reason="mlx has no wheel for this system")
    call, args, _ = WRONG[name]
    overrides = ("backends=[metal]", "options.metal.engine=mlx")
    given, model, args = lowered(lambda: (Calls(call), args), *overrides)

    def reader(delegate: Any) -> Any:
        read = program_of(delegate)
        return lambda *values: read(*values[: len(read.inputs)])

    assert error(run(given, args, reader), model, args) < 1e-5
