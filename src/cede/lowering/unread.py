"""Constants that nothing reads once delegates have taken their copies."""

from __future__ import annotations

from typing import TYPE_CHECKING

from torch.export.graph_signature import ExportGraphSignature, InputKind

if TYPE_CHECKING:
    from torch.export import ExportedProgram

_CONSTANTS = (InputKind.PARAMETER, InputKind.BUFFER, InputKind.CONSTANT_TENSOR)


def drop_unread(program: ExportedProgram) -> None:
    """Take constants out of an edge program that no op reads, so that none is stored for nothing.

    ExecuTorch does so for parameters, and before there are delegates
    (`remove_unused_parameters_pass`). What is written, or returned, stays.
    """
    signature = program.graph_signature
    written = {*signature.buffers_to_mutate.values(), *signature.parameters_to_mutate.values()}
    nodes = {node.name: node for node in program.graph.nodes if node.op == "placeholder"}
    unread = {
        spec.arg.name
        for spec in signature.input_specs
        if spec.kind in _CONSTANTS and spec.target not in written
        if not nodes[spec.arg.name].users
    }
    if not unread:
        return
    for name in unread:
        program.graph.erase_node(nodes[name])
    kept = [spec for spec in signature.input_specs if spec.arg.name not in unread]
    program._graph_signature = ExportGraphSignature(kept, signature.output_specs)
    program.graph_module.recompile()
