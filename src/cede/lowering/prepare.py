"""Legal borders before anything is decomposed: what ExecuTorch's own steps trip over."""

from __future__ import annotations

import copy
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import torch
from torch.export.graph_signature import OutputKind

from cede.constants import constants
from cede.lowering.exchange import exchanged, part
from cede.lowering.filled import filled
from cede.lowering.flows import copy_results, endangered
from cede.lowering.fold import fold, foldable
from cede.lowering.inside_executorch.pending import forget_pending

if TYPE_CHECKING:
    from torch.export import ExportedProgram
    from torch.fx import Node


def prepared(program: ExportedProgram) -> ExportedProgram:
    """A shallow copy with what has to change; weights are copied only to lie otherwise in memory.

    * ExecuTorch takes what its delegates own out of the program's dictionaries: the copy has its
      own, so that the caller's program stays whole.
    * A parameter or buffer that is returned as it is gets a clone in front of the output: a
      delegate that owns it could not hand it out.
    * A weight that an op gets inside a list, such as the operands of `cond`, and that other ops use
      too becomes two inputs: ExecuTorch can't part such users when a delegate owns the weight.
    * A weight that is computed from parameters alone becomes a constant (`fold`).
    * What control flow gives gets a copy where more of it follows (`flows`).
    * State that takes over other state gets a copy of it (`exchange`).
    * Weights in another layout than contiguous (`module.to(memory_format=...)`), and those that are
      views (`filled`), are laid out anew: compilers take them as they lie in memory.
    """
    forget_pending(program)
    result = copy.copy(program)
    result._constants = dict(program.constants)
    result._state_dict = dict(program.state_dict)
    _lay_out(result)
    if foldable(result):
        _unshare(result, program)
        fold(result, foldable(result))
    returned, listed = _returned_constants(result), _listed_constants(result)
    if returned or listed:
        _unshare(result, program)
        _clone_outputs(result, returned)
        _part_lists(result, listed)
    if exchanged(result):
        _unshare(result, program)
        part(result)
    if endangered(result.graph_module):
        _unshare(result, program)
        copy_results(result.graph_module)
    result._state_dict, result._constants = filled(result.state_dict), filled(result.constants)
    return result


def _unshare(program: ExportedProgram, given: ExportedProgram) -> None:
    """Give a program a graph and a signature of its own, where it has those of the given one."""
    if program.graph_module is given.graph_module:
        program._graph_module = copy.deepcopy(given.graph_module)
    if program.graph_signature is given.graph_signature:
        program._graph_signature = copy.deepcopy(given.graph_signature)


def _lay_out(program: ExportedProgram) -> None:
    signature = program.graph_signature
    targets = {**signature.inputs_to_parameters, **signature.inputs_to_lifted_tensor_constants}
    apart: set[str] = set()
    for name, target in targets.items():
        held: dict[str, Any] = (
            program._state_dict if target in program._state_dict else program._constants
        )
        value: Any = held.get(target)
        if type(value) not in (torch.Tensor, torch.nn.Parameter) or value.is_contiguous():
            continue
        plain = value.detach().contiguous()
        held[target] = (
            torch.nn.Parameter(plain, value.requires_grad)
            if isinstance(value, torch.nn.Parameter)
            else plain
        )
        apart.add(name)
    if apart:
        program._graph_module = copy.deepcopy(program.graph_module)
        for node in program.graph.nodes:
            if node.op == "placeholder" and node.name in apart:
                node.meta["val"] = node.meta["val"].contiguous()


def _listed_constants(program: ExportedProgram) -> dict[str, list[str]]:
    """Constants with several users, and the names of those that have it in a list."""
    # A buffer may be written through a view, which the signature doesn't tell yet.
    held = constants(program).keys() - set(program.graph_signature.inputs_to_buffers)
    found = {}
    for node in program.graph.nodes:
        if node.op == "placeholder" and node.name in held and len(node.users) > 1:
            users = [user.name for user in node.users if _in_list(node, user)]
            if users:
                found[node.name] = users
    return found


def _in_list(node: Node, user: Node) -> bool:
    return user.op != "output" and node not in (*user.args, *user.kwargs.values())


def _part_lists(program: ExportedProgram, listed: dict[str, list[str]]) -> None:
    graph, signature = program.graph_module.graph, program.graph_signature
    nodes = {node.name: node for node in graph.nodes}
    specs = []
    for spec in signature.input_specs:
        specs.append(spec)
        name = getattr(spec.arg, "name", "")
        if name not in listed:
            continue
        node = nodes[name]
        with graph.inserting_after(node):
            second = graph.placeholder(f"{name}_listed")
        second.meta = copy.copy(node.meta)
        for user in listed[name]:
            nodes[user].replace_input_with(node, second)
        given = replace(
            spec, arg=replace(spec.arg, name=second.name), target=f"{spec.target}_listed"
        )
        specs.append(given)
        for tensors in (program._state_dict, program._constants):
            if spec.target in tensors:
                tensors[given.target] = tensors[spec.target]
    signature.input_specs[:] = specs
    program.graph_module.recompile()


def _returned_constants(program: ExportedProgram) -> set[str]:
    signature = program.graph_signature
    held = constants(program)
    return {
        spec.arg.name
        for spec in signature.output_specs
        if spec.kind is OutputKind.USER_OUTPUT and getattr(spec.arg, "name", None) in held
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
