"""The constants of a program: what no caller gives."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import torch
    from torch.export import ExportedProgram


def constants(program: ExportedProgram) -> dict[str, str]:
    """Parameters, buffers and lifted constants: the names of their placeholders, with targets."""
    signature = program.graph_signature
    return {
        **signature.inputs_to_parameters,
        **signature.inputs_to_buffers,
        **signature.inputs_to_lifted_tensor_constants,
    }


def value_of(program: ExportedProgram, target: str) -> torch.Tensor:
    """The tensor that a program holds under a target, without its gradient."""
    held = program.state_dict if target in program.state_dict else program.constants
    value: torch.Tensor = held[target]
    return value.detach()
