"""Constants in data files (`.ptd`) beside the program: the model's, and an adapter's by themselves.

A file's own digest stands in it and in each program that needs it: programs with the same constants
may have one file together.
"""

from __future__ import annotations

import hashlib
import sys
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING, Any

import torch

from cede.constants import constants, value_of
from cede.running.weights import ADAPTERS, PAIRS, WEIGHTS

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from executorch.exir import EdgeProgramManager
    from torch.export import ExportedProgram
    from torch.fx import Node

    from cede.config import LoweringConfig

_TAG = "delegate_constant_tag"
"""ExecuTorch's mark of a constant that a delegate shall put into a data file, in the `custom` notes
of its node (`exir/passes/external_constants_pass.py`)."""


def mark_adapters(program: ExportedProgram, config: LoweringConfig) -> None:
    """Mark an adapter's constants in an edge program, and what decodes them."""
    if not config.adapter_weights:
        return
    named = _adapters(program, config.adapter_weights)
    for node in program.graph.nodes:
        decodes = node.op == "call_function" and "dequantize" in str(node.target)
        if node.name in named or (decodes and node.all_input_nodes[0].name in named):
            node.meta["custom"] = {**node.meta.get("custom", {}), _TAG: ADAPTERS}


def place(
    edge: EdgeProgramManager, config: LoweringConfig | None
) -> Callable[[Node], str | None] | bool:
    """Put what delegates hold where the config says; gives what says it of the other constants."""
    if config is None or not (config.external_weights or config.external_adapters):
        return False
    store = edge._named_data_store
    apart = store.external_data.pop(ADAPTERS, {})
    tag = WEIGHTS
    if config.external_weights and store.pte_data:
        store.externalize_pte_data(sys.maxsize, WEIGHTS)
        tag = next(iter(store.external_data))  # the store names its part itself
        _pair(store, WEIGHTS, tag)
    if apart and config.external_adapters:
        store.external_data[ADAPTERS] = apart
        _pair(store, ADAPTERS, ADAPTERS)
    else:
        store.pte_data.update(apart)
    names, unlike = _names(edge, config.adapter_weights), _unlike(edge)

    def tag_of(node: Node) -> str | None:
        if node.name in unlike:
            return None
        if node.name in names:
            return ADAPTERS if config.external_adapters else None
        return tag if config.external_weights else None

    return tag_of


def _pair(store: Any, kind: str, tag: str) -> None:
    entries = store.external_data[tag]
    digest = hashlib.sha256()
    for key in sorted(entries):
        digest.update(hashlib.sha256(bytes(store.buffers[entries[key].buffer_index])).digest())
    needs, has = PAIRS[kind]
    store.add_named_data(needs, digest.digest())
    store.add_named_data(has, digest.digest(), external_tag=tag)


def _names(edge: EdgeProgramManager, pattern: str) -> frozenset[str]:
    programs: Iterable[ExportedProgram] = map(edge.exported_program, edge.methods)
    return frozenset(name for each in programs for name in _adapters(each, pattern))


def _unlike(edge: EdgeProgramManager) -> frozenset[str]:
    """Names of inputs that are other constants of one name in several methods.

    A data file has them by their names alone.
    """
    held: dict[str, torch.Tensor] = {}
    unlike: dict[str, str] = {}
    for program in map(edge.exported_program, sorted(edge.methods)):
        for name, target in constants(program).items():
            value = value_of(program, target)
            first = held.setdefault(target, value)
            if first is not value and not _same(first, value):
                unlike[name] = target
    return frozenset(unlike)


def _same(one: torch.Tensor, other: torch.Tensor) -> bool:
    alike = one.shape == other.shape and one.dtype == other.dtype
    return alike and (one.data_ptr() == other.data_ptr() or torch.equal(one, other))


def _adapters(program: ExportedProgram, pattern: str) -> set[str]:
    """Names of the inputs that are an adapter's constants."""
    if not pattern:
        return set()
    held = constants(program).items()
    return {name for name, target in held if fnmatchcase(target, pattern)}
