"""Runs programs with TOSA delegates: each in TOSA's reference model, on the CPU."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from executorch.exir.tensor import get_scalar_type

from cede.errors import LoweringError
from cede.running.interpreter import Interpreter
from cede.running.pte import read
from cede.running.runtime import run_delegate

if TYPE_CHECKING:
    from collections.abc import Sequence

    from cede.running.interpreter import Call
    from cede.running.pte import Delegate

DELEGATE_ID = "TOSABackend"


def load(data: bytes) -> Interpreter:
    """Load a `.pte`. Delegates of other backends run in ExecuTorch's runtime.

    Raises:
        LoweringError: no program, or an operator or delegate in it that can't be run here.
    """
    return Interpreter(read(data), _handle)


def _handle(delegate: Delegate, arguments: Sequence[Any]) -> Call:
    if delegate.id == DELEGATE_ID:
        return ReferenceModel(delegate.data, arguments)
    return run_delegate(delegate, arguments)


class ReferenceModel:
    """One TOSA delegate in the reference model (`tosa_reference_model.run`).

    A TOSA graph knows dense row-major tensors only: a value lies in the dimension order that the
    program gives it, and so do its elements in the graph.

    Args:
        graph: a flatbuffer of TOSA's schema, with one region.
        arguments: `EValue.val` of each argument of the delegate's call.

    Raises:
        LoweringError: the data is no TOSA graph.
    """

    def __init__(self, graph: bytes, arguments: Sequence[Any]) -> None:
        self._graph = graph
        self._arguments = arguments
        self._inputs, self._outputs = _borders(graph)

    def __call__(self, values: list[Any]) -> list[Any]:
        """Outputs for the arguments of a delegate call, of which the first are its inputs."""
        model = import_module("tosa_reference_model")
        first = len(self._arguments) - self._outputs
        given = [
            _array(values[i], self._arguments[i].dim_order) for i in range(min(self._inputs, first))
        ]
        try:
            found, status = model.run(self._graph, given, initialize_variable_tensor_from_numpy=1)
        except ValueError as error:
            raise LoweringError(f"TOSA's reference model refuses the graph: {error}") from error
        if status != model.GraphStatus.TOSA_VALID:
            raise LoweringError(f"TOSA's reference model says {status}: the results can't be used")
        return [_tensor(array, self._arguments[first + i]) for i, array in enumerate(found)]


def _borders(graph: bytes) -> tuple[int, int]:
    """How many inputs and outputs a TOSA graph has."""
    schema = import_module("tosa.TosaGraph").TosaGraph
    if not schema.TosaGraphBufferHasIdentifier(graph, 0):
        raise LoweringError("the delegate's data is no TOSA graph; lower the program again")
    block = schema.GetRootAs(graph).Regions(0).Blocks(0)
    return block.InputsLength(), block.OutputsLength()


def _array(value: torch.Tensor, order: Sequence[int]) -> Any:
    dense = value.detach().permute(*order).contiguous() if value.dim() else value.detach()
    if dense.dtype is torch.bfloat16:  # numpy has none: the graph says what the bits are
        dense = dense.view(torch.uint16)
    return dense.numpy()


def _tensor(array: Any, argument: Any) -> torch.Tensor:
    dtype = get_scalar_type(argument.scalar_type)
    order = list(argument.dim_order or ())
    if dtype is torch.bfloat16 or array.dtype.type is np.void:
        flat = torch.frombuffer(bytearray(array.tobytes()), dtype=dtype)
    else:
        flat = torch.from_numpy(np.ascontiguousarray(array)).to(dtype)
    dense = flat.reshape([argument.sizes[dim] for dim in order])
    inverse = [order.index(dim) for dim in range(len(order))]
    return dense.permute(*inverse) if order else dense
