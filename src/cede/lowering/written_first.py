"""State that each call reads only where it, or a call before it, has written.

Such are the caches of keys and values that ExecuTorch's attention reads: `llama::update_cache`
writes them from a position on, and causal `llama::custom_sdpa` without a mask reads them up to the
last position written (executorch/extension/llm/custom_ops/op_sdpa.cpp). What they hold before
that is of no effect where calls follow one another from position 0, so their zeros need no place
in the file. ExecuTorch's own exporters store no initial values at all.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch
from torch.fx import Node

from cede.constants import value_of
from cede.facts.arguments import aten_overload

if TYPE_CHECKING:
    from torch.export import ExportedProgram

WRITES = "llama.update_cache.default"
READS = ("llama.custom_sdpa.default", "llama.custom_quantized_sdpa.default")
QUERY, START, MASK, CAUSAL = 0, 3, 4, 6
"""Places of these among the arguments of what reads."""


def drop_initial(program: ExportedProgram) -> None:
    """Keep ExecuTorch from storing zeros for the state that is written before it is read.

    Args:
        program: the edge program, with real constants.
    """
    buffers = program.graph_signature.inputs_to_buffers
    for node in program.graph.nodes:
        if "et_init_buffer" not in node.meta or not _only_read_where_written(node):
            continue
        if not torch.any(value_of(program, buffers[node.name])):
            del node.meta["et_init_buffer"]


def _only_read_where_written(cache: Node) -> bool:
    """Whether one op writes a cache, and all that read the outcome read no further."""
    if len(cache.users) != 1:
        return False
    [write] = cache.users
    if not write.args or str(write.args[0]) != WRITES or write.kwargs.get("_all_bases") != [cache]:
        return False
    outcomes = [user for user in write.users if user.args[1:] == (1,)]
    if len(outcomes) != len(write.users):
        return False
    return all(
        reader.op == "output" or _reads_up_to(reader, outcome, write)
        for outcome in outcomes
        for reader in outcome.users
    )


def _reads_up_to(reader: Node, cache: Node, write: Node) -> bool:
    """Whether an op reads a cache up to the last position that was written, and no further."""
    args = (*reader.args, *([None] * (CAUSAL + 1 - len(reader.args))))
    query, value = args[QUERY], write.kwargs["value"]
    return (
        not reader.kwargs
        and str(aten_overload(reader.target)) in READS
        and cache is not query
        and args[MASK] is None
        and args[CAUSAL] is True
        and _alike(args[START], write.kwargs["start_pos"])
        and isinstance(query, Node)
        and isinstance(value, Node)
        and _tokens(query) == _tokens(value)
    )


def _tokens(node: Node) -> str:
    """The second size of a tensor, the number of tokens of a call."""
    return str(node.meta["val"].shape[1])


def _alike(one: Any, other: Any) -> bool:
    """Whether two arguments are computed alike: the same, or by equal ops from such."""
    todo = [(one, other)]
    while todo:
        one, other = todo.pop()
        if one is other:
            continue
        if not (isinstance(one, Node) and isinstance(other, Node)):
            if one != other:
                return False
            continue
        known = one.op == other.op == "call_function" and one.target == other.target
        if not known or one.kwargs != other.kwargs or len(one.args) != len(other.args):
            return False
        todo += zip(one.args, other.args, strict=True)
    return True
