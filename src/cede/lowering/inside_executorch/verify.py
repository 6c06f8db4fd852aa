"""Verifiers that look at a graph once, and at the values that it has."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any
from weakref import WeakKeyDictionary

import torch
from executorch.exir.verification import verifier
from executorch.exir.verification.arg_validator import EdgeOpArgValidator
from torch.fx import Graph, Interpreter

from cede.lowering.inside_executorch.values import Fitting, fitting, unchanged

if TYPE_CHECKING:
    from collections.abc import Callable

    from torch.fx import GraphModule

    from cede.lowering.inside_executorch.patching import Patch

_seen: WeakKeyDictionary[Graph, Fitting] = WeakKeyDictionary()


def _once(stock: Callable[..., Any]) -> Callable[..., Any]:
    def check(module: GraphModule) -> None:
        before = _seen.get(module.graph)
        if before is None or not unchanged(module, before):
            stock(module)
            _seen[module.graph] = fitting(module)

    return check


def _known(stock: Callable[..., Any]) -> Callable[..., Any]:
    def call_function(self: Interpreter, target: Any, args: Any, kwargs: Any) -> Any:
        if isinstance(self, EdgeOpArgValidator):
            value = self.node.meta.get("val")
            if isinstance(value, torch.Tensor):
                return value  # it has checked the arguments; the outcome is there already
        return stock(self, target, args, kwargs)

    return call_function


def forget() -> None:
    """Let go of all graphs."""
    _seen.clear()


def patches() -> list[Patch]:
    """The check of argument types, which interprets the whole graph."""
    return [
        (verifier, "_check_tensor_args_matching_op_allowed_dtype", _once),
        (Interpreter, "call_function", _known),
    ]
