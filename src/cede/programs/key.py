"""What a whole program is made from, as a key: equal keys, equal programs and reports."""

from __future__ import annotations

import hashlib
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from torch.fx import GraphModule
from torch.utils import _pytree as pytree

from cede.config import ROOFLINE
from cede.facts.places import layer_of, module_of, origin_of, source_of
from cede.policy import read_policy
from cede.programs import content
from cede.programs.content import Opaque, digest, plain
from cede.programs.versions import installed, module_sources, own_sources
from cede.running.libraries import libraries
from cede.store import PROGRAM

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from torch.export import ExportedProgram
    from torch.fx import Node

    from cede.config import Config
    from cede.host import Host
    from cede.planning import Plan

_ASIDE = ("origins", "check", "quantize", "strict")
"""Parts of a config that decide nothing once there is an exported program."""

_OWN = ("cache", "cache_folder", "cache_bytes", "compile_seconds", "compile_bytes")
_TORCH = ("aten", "prim", "prims", "higher_order", "export", "quantized")


def key_of(
    program: ExportedProgram,
    host: Host,
    config: Config,
    replay: Plan | None,
    metadata: Mapping[str, Any] | None,
) -> str | None:
    """The key of what an exported program becomes, None where it can't be told.

    SHA-256 over all installed versions, cede's and the plugins' sources, the config, the plan to
    follow, the metadata, and the program: each node with its facts and with the module, layer,
    source line and origin that a report shows, the signature, call spec and sizes, and the bytes of
    each constant, with which of them share memory.
    """
    try:
        parts = [*versions(host), *settings(host, config, replay, metadata), *_content(program)]
    except Opaque:
        return None
    return PROGRAM + digest(parts)


def versions(host: Host) -> Iterator[str]:
    """What is installed, cede's and the plugins' sources, and the plugins that failed."""
    yield f"{installed()} {own_sources()}"
    for loaded in host.plugins:
        yield repr(loaded)
    for failure in host.failures:
        yield str(failure)
    for conflict in host.conflicts:
        yield str(conflict)
    for name in host.modules:
        yield f"{name} {module_sources(name)}"


def settings(
    host: Host,
    config: Config,
    replay: Plan | None = None,
    metadata: Mapping[str, Any] | None = None,
) -> Iterator[str]:
    """What of a config decides what an exported program becomes, and what is here to lower it.

    Raises Opaque where the config holds what can't be compared.
    """
    values = asdict(config)
    for name in _ASIDE:
        del values[name]
    for name in _OWN:
        del values["lowering"][name]
    yield plain(values)
    yield from _told(config)
    if config.costs not in ("", ROOFLINE):
        try:
            yield hashlib.sha256(Path(config.costs).read_bytes()).hexdigest()
        except OSError:
            raise Opaque from None  # reading it says what is wrong
    for name in dict.fromkeys(each.backend for each in host.partitioners_for(config)):
        yield f"{name} {host.availability(name)}"
    yield replay.to_json() if replay is not None else ""
    yield plain(dict(metadata or {}))


def _told(config: Config) -> Iterator[str]:
    """Where rules of the policy come from: reasons and warnings say it."""
    policy = read_policy(config)
    yield from map(str, policy.rules)
    if policy.max_claims is not None:
        yield policy.fuel
    if policy.fallback != "ignore":
        yield policy.place


def _content(program: ExportedProgram) -> Iterator[str]:
    signature = program.graph_signature
    yield f"{program.dialect} {signature.input_specs} {signature.output_specs}"
    yield repr(sorted((str(k), str(v)) for k, v in program.range_constraints.items()))
    yield from map(_spec, (program.call_spec.in_spec, program.call_spec.out_spec))
    for name, module in program.graph_module.named_modules(remove_duplicate=False):
        if not isinstance(module, GraphModule):
            raise Opaque
        yield name
        yield from content.nodes(module.graph)
        yield from (_place(module, node) for node in module.graph.nodes)
    held = {**program.state_dict, **program.constants}
    yield from content.constants(held)
    yield from content.views(held)


def _spec(spec: pytree.TreeSpec | None) -> str:
    try:
        return pytree.treespec_dumps(spec) if spec is not None else ""
    except Exception as error:  # a container that nobody gave a form
        raise Opaque from error


def _place(module: GraphModule, node: Node) -> str:
    """What a report shows of where a node comes from; what the node holds beyond its facts."""
    told = f"{module_of(node)} {layer_of(node)} {source_of(node)} {origin_of(node)}"
    if isinstance(node.target, torch._ops.OpOverload):
        # the code of an operator of the user's own, its decomposition for one, has no version
        if node.target.namespace not in _TORCH and not libraries(node.target.namespace):
            raise Opaque
    if node.op == "get_attr":
        held: Any = module
        for part in str(node.target).split("."):
            held = getattr(held, part)
        if not isinstance(held, GraphModule):
            told += f" {next(content.constants({'': held}))}"
    value = node.meta.get("val")
    if isinstance(value, torch.Tensor):
        sizes: list[Any] = [size for size in value.shape if isinstance(size, torch.SymInt)]
        told += "".join(f" {size}={size.node.hint}" for size in sizes)
    return told
