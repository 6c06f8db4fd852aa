"""A row of the support matrix: one tiny call, as a module with its inputs."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import torch
from torch.utils import _pytree as pytree

from cede.support.data import Data, Rows

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence


@dataclass(frozen=True, slots=True, kw_only=True)
class Sample:
    """One call of one op.

    Attributes:
        name: operator with overload ("aten.add.Tensor"), or a function's name ("conv2d").
        function: what is called; None where nothing can be judged.
        args: literals, `Data`, lists of these, and `Rows`.
        kwargs: likewise.
        typed: whether the call gets `dtype=` of the probed dtype.
        given: a further input that only gives `Rows` its size.
        why: why nothing can be judged, in words.
    """

    name: str
    function: Callable[..., Any] | None = None
    args: tuple[Any, ...] = ()
    kwargs: dict[str, Any] = field(default_factory=dict)
    typed: bool = False
    given: Data | None = None
    why: str = ""

    @property
    def data(self) -> list[Data]:
        """Inputs and weights, in order."""
        leaves = [leaf for leaf in _leaves((self.args, self.kwargs)) if isinstance(leaf, Data)]
        return ([self.given] if self.given is not None else []) + leaves

    def module(self, dtype: torch.dtype) -> Probe:
        """The call as a module, with its weights."""
        return Probe(self, dtype)

    def inputs(
        self, dtype: torch.dtype, rows: Sequence[int | None] | None = None
    ) -> tuple[torch.Tensor, ...]:
        """What the module is called with.

        Args:
            dtype: the probed dtype.
            rows: for each input the size of its first dimension, None for its own.
        """
        given = [(i, data) for i, data in enumerate(self.data) if not data.held]
        sizes = [None] * len(given) if rows is None else rows
        return tuple(
            data.make(dtype, f"{self.name} {i}", size)
            for (i, data), size in zip(given, sizes, strict=True)
        )


class Probe(torch.nn.Module):
    """A module whose `forward` is the call; its inputs are the data that it doesn't hold."""

    def __init__(self, sample: Sample, dtype: torch.dtype) -> None:
        super().__init__()
        self.sample = sample
        self.dtype = dtype
        for i, data in enumerate(sample.data):
            if data.held:
                value = data.make(dtype, f"{sample.name} {i}")
                if value.is_floating_point():
                    self.register_parameter(f"w{i}", torch.nn.Parameter(value, False))
                else:
                    self.register_buffer(f"w{i}", value)
        leaves = _leaves((sample.args, sample.kwargs))
        for i, leaf in enumerate(leaves):
            if isinstance(leaf, torch.Tensor):
                self.register_buffer(f"c{i}", leaf)

    def forward(self, *inputs: torch.Tensor) -> list[Any]:
        """Call the op; its results, flat."""
        sample = self.sample
        given, count = iter(inputs), iter(range(len(sample.data)))
        if sample.given is not None:
            next(given), next(count)

        def value(leaf: Any) -> Any:
            if isinstance(leaf, Data):
                i = next(count)
                return getattr(self, f"w{i}") if leaf.held else next(given)
            return leaf.factor * inputs[0].shape[0] if isinstance(leaf, Rows) else leaf

        leaves, spec = pytree.tree_flatten((sample.args, sample.kwargs), is_leaf=_is_leaf)
        found = [
            getattr(self, f"c{i}") if isinstance(leaf, torch.Tensor) else value(leaf)
            for i, leaf in enumerate(leaves)
        ]
        args, kwargs = pytree.tree_unflatten(found, spec)
        if sample.typed:
            kwargs = {**kwargs, "dtype": self.dtype}
        assert sample.function is not None  # noqa: S101  (nobody probes one without)
        return _results(sample.function(*args, **kwargs))


def call(
    op: Any, *args: Any, typed: bool = False, given: Data | None = None, **kwargs: Any
) -> Sample:
    """A row for an operator."""
    return Sample(name=str(op), function=op, args=args, kwargs=kwargs, typed=typed, given=given)


def named(name: str, function: Callable[..., Any], *args: Any, **kwargs: Any) -> Sample:
    """A row for a function."""
    return Sample(name=name, function=function, args=args, kwargs=kwargs)


def skip(op: Any, why: str) -> Sample:
    """A row for an operator that can't be judged."""
    return Sample(name=str(op), why=why)


def _results(made: Any) -> list[Any]:
    # native_layer_norm_backward and others give None or an empty tensor for what nobody asked for
    return [value for value in pytree.tree_leaves(made) if isinstance(value, torch.Tensor)]


def _leaves(tree: Any) -> list[Any]:
    return list(pytree.tree_leaves(tree, is_leaf=_is_leaf))


def _is_leaf(value: Any) -> bool:
    return isinstance(value, Data | Rows) or value is None
