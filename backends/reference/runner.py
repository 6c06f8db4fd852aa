"""Runs programs with reference delegates: eager torch inside the delegates and between them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch
from torch.export.graph_signature import InputKind, OutputKind

from cede.backends.reference.payload import restore
from cede.running.interpreter import Interpreter
from cede.running.pte import read
from cede.running.runtime import run_delegate

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from cede.running.interpreter import Call
    from cede.running.pte import Delegate

DELEGATE_ID = "CedeReferenceBackend"


def load(data: bytes, ids: Collection[str] = ()) -> Interpreter:
    """Load a `.pte`. Delegates of other backends run in ExecuTorch's runtime.

    Args:
        data: the program.
        ids: of further delegates whose payload is one that `dump` wrote.

    Raises:
        LoweringError: no program, or an operator or delegate in it that can't be run here.
    """
    known = {DELEGATE_ID, *ids}

    def handle(delegate: Delegate, arguments: Sequence[Any]) -> Call:
        if delegate.id in known:
            return Subprogram(delegate.data)
        return run_delegate(delegate, arguments)

    return Interpreter(read(data), handle)


class Subprogram:
    """One reference delegate, in eager torch; buffers that it owns live between calls.

    Args:
        data: its payload.
    """

    def __init__(self, data: bytes) -> None:
        program = restore(data)
        self._module = program.graph_module
        self._inputs = program.graph_signature.input_specs
        self._outputs = program.graph_signature.output_specs
        self._state: dict[str, Any] = {**program.constants, **program.state_dict}

    def __call__(self, arguments: list[Any]) -> list[Any]:
        """Outputs for the arguments of a delegate call, of which the first are its inputs."""
        given = iter(arguments)
        flat = [
            next(given) if spec.kind is InputKind.USER_INPUT else self._state[spec.target]
            for spec in self._inputs
        ]
        with torch.no_grad():
            results = self._module(*flat)
        outputs = []
        for spec, value in zip(self._outputs, results, strict=True):
            if spec.kind is OutputKind.BUFFER_MUTATION:
                self._state[spec.target] = value
            else:
                outputs.append(value)
        return outputs
