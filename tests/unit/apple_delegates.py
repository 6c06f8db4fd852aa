"""Programs for the Core ML and MLX delegates, and running them without Apple's systems."""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, Any

import torch
from torch import nn
from torch.nn import functional
from torch.utils import _pytree as pytree

from cede import api
from cede.config import load_config
from cede.running.interpreter import Interpreter
from cede.running.pte import read

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from cede.lowering import Lowered
    from cede.running.pte import Delegate

    Made = tuple[nn.Module, tuple[torch.Tensor, ...]]
    Reader = Callable[[Delegate], Callable[..., list[torch.Tensor]]]


class Attention(nn.Module):
    """Token embedding, causal attention with a residual, RMS norm, and the last token's logits."""

    def __init__(self) -> None:
        super().__init__()
        self.tokens = nn.Embedding(20, 16)
        self.qkv, self.out = nn.Linear(16, 48), nn.Linear(16, 16, bias=False)
        self.norm, self.head = nn.RMSNorm(16, eps=1e-5), nn.Linear(16, 20)

    def forward(self, ids: torch.Tensor) -> torch.Tensor:
        x = self.tokens(ids)
        parts = [part.unflatten(-1, (2, 8)).transpose(1, 2) for part in self.qkv(x).chunk(3, -1)]
        mixed = functional.scaled_dot_product_attention(*parts, is_causal=True)
        x = x + self.out(mixed.transpose(1, 2).flatten(2))
        return self.head(self.norm(x)[:, -1])


def mlp() -> Made:
    layers = (nn.Linear(8, 16), nn.GELU(), nn.LayerNorm(16), nn.Linear(16, 4), nn.Softmax(-1))
    return nn.Sequential(*layers), (torch.randn(3, 8),)


def attention() -> Made:
    return Attention(), (torch.randint(0, 20, (2, 6)),)


def conv() -> Made:
    layers = (
        nn.Conv2d(3, 8, 3, padding=1, bias=False), nn.BatchNorm2d(8), nn.ReLU6(),
        nn.Conv2d(8, 8, 3, stride=2, groups=8), nn.MaxPool2d(2), nn.Flatten(), nn.Linear(32, 5),
    )  # fmt: skip
    return nn.Sequential(*layers), (torch.randn(1, 3, 10, 10),)


MADE: dict[str, Callable[[], Made]] = {"mlp": mlp, "attention": attention, "conv": conv}


def lowered(
    make: Callable[[], Made], *overrides: str
) -> tuple[Lowered, nn.Module, tuple[torch.Tensor, ...]]:
    """The program of a model, lowered by a config with these overrides."""
    torch.manual_seed(0)
    model, args = make()
    for value in (*model.parameters(), *model.buffers()):  # no ones and zeros to fold away
        if value.is_floating_point() and value.dim() < 2:
            value.detach().uniform_(0.5, 1.5)
    with torch.no_grad():
        program = torch.export.export(model.eval(), args)
    return api.lower(program, config=load_config(overrides=list(overrides))), model, args


@cache
def made(name: str, *overrides: str) -> tuple[Lowered, nn.Module, tuple[torch.Tensor, ...]]:
    """`lowered` for one of `MADE`, once in a test run."""
    return lowered(MADE[name], *overrides)


def delegates(given: Lowered) -> tuple[Delegate, ...]:
    """The delegates of a lowered program."""
    return read(given.buffer).delegates("forward")


def run(given: Lowered, args: Sequence[Any], reader: Reader, *, sizes: bool = True) -> list[Any]:
    """Run the `.pte` with what `reader` makes of each delegate in its place.

    A delegate's first arguments are its inputs; the values it gives are cast to the dtype that the
    program has for them, as the delegates' runtimes do, and to its shape if `sizes`.
    """
    from executorch.exir.tensor import get_scalar_type

    def handler(delegate: Delegate, arguments: Sequence[Any]) -> Any:
        execute = reader(delegate)

        def call(values: list[Any]) -> list[Any]:
            results = execute(*values)
            targets = arguments[len(arguments) - len(results) :]
            return [
                result.to(get_scalar_type(target.scalar_type)).reshape(
                    list(target.sizes or ()) if sizes else result.shape
                )
                for result, target in zip(results, targets, strict=True)
            ]

        return call

    flat = [value.clone() for value in pytree.tree_leaves(tuple(args))]
    return Interpreter(read(given.buffer), handler).run(flat)


def eager(given: Lowered) -> Reader:
    """A reader that puts the claimed subgraph itself, in eager, in a delegate's place."""
    modules = {bytes(value.processed_bytes): value.original_module for value in subgraphs(given)}

    def reader(delegate: Delegate) -> Callable[..., list[torch.Tensor]]:
        program = modules[delegate.data]
        count = len(program.graph_signature.user_inputs)

        def execute(*values: torch.Tensor) -> list[torch.Tensor]:
            with torch.no_grad():
                return pytree.tree_leaves(program.module()(*values[:count]))

        return execute

    return reader


def subgraphs(given: Lowered) -> list[Any]:
    """The `LoweredBackendModule`s of the edge program, in execution order."""
    module = given.edge.graph_module
    return [
        getattr(module, str(node.target))
        for node in module.graph.nodes
        if node.op == "get_attr" and hasattr(getattr(module, str(node.target)), "processed_bytes")
    ]


def kinds(given: Lowered) -> list[str]:
    """Operators of the claimed ops."""
    return [given.graph.op(op).kind for part in given.plan.delegations for op in part.ops]


def error(got: Sequence[Any], model: nn.Module, args: Sequence[Any]) -> float:
    """Largest difference from eager; shapes and dtypes must be the same."""
    with torch.no_grad():
        wanted = pytree.tree_leaves(model(*args))
    for mine, other in zip(got, wanted, strict=True):
        assert (mine.shape, mine.dtype) == (other.shape, other.dtype)
    return max(
        float((mine.double() - other.double()).abs().max())
        for mine, other in zip(got, wanted, strict=True)
    )
