"""Small programs of many kinds, each made anew and always the same."""

from __future__ import annotations

from functools import wraps
from typing import TYPE_CHECKING

import torch
from torch import nn

from cede.testing import kinds
from cede.testing.sample import Sample

if TYPE_CHECKING:
    from collections.abc import Callable


def mlp() -> Sample:
    """Linear, ReLU, linear, softmax."""
    model = nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 4), nn.Softmax(-1))
    return Sample(model=model, calls=((torch.randn(2, 8),),))


def conv() -> Sample:
    """Convolution, batch norm with statistics of its own, ReLU, pooling."""
    norm = nn.BatchNorm2d(8)
    nn.init.normal_(norm.running_mean)  # type: ignore[arg-type]
    nn.init.uniform_(norm.running_var, 0.5, 1.5)  # type: ignore[arg-type]
    model = nn.Sequential(nn.Conv2d(3, 8, 3, padding=1), norm, nn.ReLU(), nn.AvgPool2d(2))
    return Sample(model=model, calls=((torch.randn(1, 3, 8, 8),),))


def attention() -> Sample:
    """Two heads of scaled dot product attention and a layer norm."""
    return Sample(model=kinds.Attention(), calls=((torch.randn(1, 6, 16),),))


def embedding() -> Sample:
    """A table look-up with integer inputs."""
    model = nn.Sequential(nn.Embedding(16, 8), nn.Linear(8, 4))
    return Sample(model=model, calls=((torch.tensor([[3, 0, 15, 3]]),),))


def control_flow() -> Sample:
    """`torch.cond`, called for both branches."""
    x = torch.randn(2, 4)
    calls = tuple((torch.tensor(flag), x) for flag in (True, False))
    return Sample(model=kinds.Branches(), calls=calls)


def mutated_buffer() -> Sample:
    """A cache that starts with values and is written by each call."""
    calls = tuple((torch.randn(1, 8), torch.tensor([i])) for i in range(3))
    return Sample(model=kinds.Cache(), calls=calls)


def dynamic_batch() -> Sample:
    """A batch between 2 and 8, called at both bounds and between."""
    model = nn.Sequential(nn.Linear(8, 4), nn.Sigmoid())
    shapes = {"input": {0: torch.export.Dim("batch", min=2, max=8)}}
    calls = tuple((torch.randn(size, 8),) for size in (8, 2, 5))
    return Sample(model=model, calls=calls, dynamic_shapes=shapes)


def two_outputs() -> Sample:
    """Two results, one of which is also computed on."""
    return Sample(model=kinds.TwoOutputs(), calls=((torch.randn(2, 8),),))


def integers() -> Sample:
    """Arithmetic and comparisons of int64 values."""
    calls = ((torch.tensor([[4, -3, 7]]), torch.tensor([[2, 5, -1]])),)
    return Sample(model=kinds.Integers(), calls=calls)


def split() -> Sample:
    """An operator with a list of results, taken apart by getitem."""
    return Sample(model=kinds.Split(), calls=((torch.randn(2, 9),),))


def topk() -> Sample:
    """An operator with two results, a float and an integer one."""
    return Sample(model=kinds.TopK(), calls=((torch.randn(2, 9),),))


def bfloat16() -> Sample:
    """A bfloat16 MLP."""
    return _half(torch.bfloat16)


def float16() -> Sample:
    """A float16 MLP."""
    return _half(torch.float16)


def _half(dtype: torch.dtype) -> Sample:
    model = nn.Sequential(nn.Linear(8, 8), nn.ReLU(), nn.Linear(8, 4)).to(dtype)
    return Sample(model=model, calls=((torch.randn(2, 8).to(dtype),),))


def custom_op() -> Sample:
    """An operator that no decomposition and no kernel library knows."""
    kinds.define_custom_op()
    model = kinds.CustomOp()
    return Sample(model=model, calls=((torch.randn(2, 8),),), needs=(kinds.CUSTOM_OP,))


def tied_weights() -> Sample:
    """One parameter as the table of an embedding and as the weight of a linear."""
    return Sample(model=kinds.Tied(), calls=((torch.tensor([[1, 2, 0]]),),))


def returned_parameter() -> Sample:
    """A parameter that is computed with and returned as it is."""
    return Sample(model=kinds.ReturnsParameter(), calls=((torch.randn(2, 4),),))


def shapes() -> Sample:
    """Views, transposes, concatenation and padding; no arithmetic."""
    return Sample(model=kinds.Shapes(), calls=((torch.randn(2, 3, 4),),))


def _seeded(make: Callable[[], Sample]) -> Callable[[], Sample]:
    @wraps(make)
    def seeded() -> Sample:
        with torch.random.fork_rng(devices=()):
            torch.manual_seed(0)
            return make()

    return seeded


SAMPLES: dict[str, Callable[[], Sample]] = {
    make.__name__: _seeded(make)
    for make in (
        mlp,
        conv,
        attention,
        embedding,
        control_flow,
        mutated_buffer,
        dynamic_batch,
        two_outputs,
        integers,
        split,
        topk,
        bfloat16,
        float16,
        custom_op,
        tied_weights,
        returned_parameter,
        shapes,
    )
}
"""What makes each bundled program, by name."""

__all__ = ["SAMPLES"]
