"""Legal borders before anything is decomposed: what ExecuTorch's own steps trip over."""

from __future__ import annotations

import copy
from typing import TYPE_CHECKING

import torch
from torch.export.graph_signature import OutputKind

if TYPE_CHECKING:
    from torch.export import ExportedProgram


def prepared(program: ExportedProgram) -> ExportedProgram:
    """A shallow copy with what has to change; weights are never copied.

    * ExecuTorch takes what its delegates own out of the program's dictionaries: the copy has its
      own, so that the caller's program stays whole.
    * A parameter or buffer that is returned as it is gets a clone in front of the output: a
      delegate that owns it could not hand it out.
    * Parameters that require grad are detached: the emitter writes slices in place.
    """
    result = copy.copy(program)
    result._constants = dict(program.constants)
    result._state_dict = {
        key: torch.nn.Parameter(value.detach(), requires_grad=False)
        if getattr(value, "requires_grad", False)
        else value
        for key, value in program.state_dict.items()
    }
    if returned := _returned_constants(program):
        result._graph_module = copy.deepcopy(program.graph_module)
        result._graph_signature = copy.deepcopy(program.graph_signature)
        _clone_outputs(result, returned)
    return result


def _returned_constants(program: ExportedProgram) -> set[str]:
    signature = program.graph_signature
    constants = {
        *signature.inputs_to_parameters,
        *signature.inputs_to_buffers,
        *signature.inputs_to_lifted_tensor_constants,
    }
    return {
        spec.arg.name
        for spec in signature.output_specs
        if spec.kind is OutputKind.USER_OUTPUT and getattr(spec.arg, "name", None) in constants
    }


def _clone_outputs(program: ExportedProgram, names: set[str]) -> None:
    graph = program.graph_module.graph
    output = graph.output_node()
    values = list(output.args[0])
    for i, spec in enumerate(program.graph_signature.output_specs):
        node = values[i]
        if spec.kind is OutputKind.USER_OUTPUT and getattr(node, "name", None) in names:
            with graph.inserting_before(output):
                clone = graph.call_function(torch.ops.aten.clone.default, (node,))
            clone.meta.update(node.meta)
            clone.meta["val"] = node.meta["val"]
            values[i] = clone
            spec.arg.name = clone.name
    output.args = (tuple(values),)
    program.graph_module.recompile()
