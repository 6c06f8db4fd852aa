"""Where a plan puts the nodes of an exported program, before they are quantized."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from cede.facts.places import NODE_KEY
from cede.lowering.scout import scout
from cede.lowering.view import view_of
from cede.planning import UNASKED

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from torch.export import ExportedProgram

    from cede.config import Config
    from cede.host import Host
    from cede.types import Delegation, OpGraph


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """What a plan makes of one node of the exported program.

    Attributes:
        backend: that gets all ops which the node becomes; "" where that is not one.
        delegates: ids of their delegations, in order.
        why: where there is no such backend, each partitioner's reason.
    """

    backend: str = ""
    delegates: tuple[str, ...] = ()
    why: str = ""


def places(
    program: ExportedProgram, host: Host, config: Config, options: Mapping[str, Any]
) -> dict[str, Place]:
    """Plan a program, which is left as it is, and tell each node's place by its name.

    A node that becomes no op (it was folded away) has no entry.

    Raises what `scout` raises.
    """
    found = scout(_noted(program), host, config, options)
    plan = found.plan
    assert plan.graph is not None  # noqa: S101  (a plan made here has its graph)
    ops: dict[str, list[str]] = {}
    fixed = _of_constants(plan.graph)
    for op in plan.graph.ops:
        if not op.bookkeeping and op.id not in fixed and (name := found.nodes.get(op.id)):
            ops.setdefault(name, []).append(op.id)
    taken, reasons = plan.delegation_of(), plan.reasons()
    return {name: _place(reasons, taken, made) for name, made in ops.items()}


def _place(
    reasons: Mapping[str, str], taken: Mapping[str, Delegation], ops: Iterable[str]
) -> Place:
    given = {}
    for op in ops:
        if op not in taken:
            return Place(why=reasons.get(op, UNASKED))
        given[taken[op].id] = taken[op].backend
    backends = list(dict.fromkeys(given.values()))
    if len(backends) > 1:
        return Place(why=f"its parts go to {' and '.join(backends)}")
    return Place(backend=backends[0], delegates=tuple(given))


def _of_constants(graph: OpGraph) -> set[str]:
    """Ops that read constants alone, such as the cast of a number: no matter who has them."""
    found: set[str] = set()
    for op in graph.ops:
        given = (used in found or _constant(graph, used) for used in op.inputs)
        if op.inputs and all(given):
            found.add(op.id)
    return found


def _constant(graph: OpGraph, id: str) -> bool:
    given = graph.input(id)
    return given is not None and given.constant


def _noted(program: ExportedProgram) -> ExportedProgram:
    """A copy whose nodes have their names in what goes with them through decomposition."""
    result = view_of(program)
    for node in result.graph.nodes:
        if node.op == "call_function":
            custom = node.meta.get("custom")
            noted = dict(custom) if isinstance(custom, dict) else {}
            node.meta["custom"] = {**noted, NODE_KEY: node.name}
    return result
