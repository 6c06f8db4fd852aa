"""What would stop a program at emission or on a device, all of it, before a delegate is compiled.

Policy, reviews and borders are asked one after the other, and told together.
"""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Any

import torch
from executorch.exir.passes import to_out_var_skiplist

from cede.errors import LoweringError, PlanError
from cede.facts.arguments import aten_overload, written_by
from cede.lowering.custom import emittable, is_custom, out_variant, stranded
from cede.lowering.policed import insist_on
from cede.lowering.tags import nodes_by_id
from cede.planning import UNASKED
from cede.running.libraries import libraries, register
from cede.settle import check_settlement
from cede.types import Settlement

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from torch.export import ExportedProgram

    from cede.planning import Plan
    from cede.types import Finding, Op, OpGraph

_FLOW = ("cond", "map_impl", "scan")
"""Control flow that ExecuTorch's emitter knows (`exir/emit/_emitter.py`, `_emit_control_flow`)."""

_EFFECTS = "with_effects"

_REMOVED = ("aten.sym_", "aten._assert", "aten.alias", "aten.lift_fresh", "executorch_prim.")
"""What ExecuTorch's own passes take out or rewrite before emission."""


def problems(program: ExportedProgram, plan: Plan, graph: OpGraph, own: bool) -> list[str]:
    """What keeps the ops that were left from being emitted.

    Args:
        program: the edge program, before delegates are compiled.
        plan: for it.
        graph: its facts.
        own: whether cede emits the program; a script may give passes of its own that rewrite ops
            of ExecuTorch's libraries.

    Returns:
        Texts that name each op, its place, and every partitioner's reason; [] if there is none.
    """
    found = [text] if (text := stranded(program, plan, graph)) else []
    found += _flows(plan, graph)
    found += _effects(graph)
    return found + (_without_variant(program, plan, graph) if own else [])


def unrunnable(program: ExportedProgram, plan: Plan, graph: OpGraph) -> list[str]:
    """Warnings of left ops that the runtime here has no kernel for, before anything is compiled."""
    from executorch.runtime import Runtime

    present = set(Runtime.get().operator_registry.operator_names)
    missing: dict[str, list[str]] = {}
    names: dict[Any, str] = {}
    for op, overload in _left(program, plan, graph):
        if overload not in names:
            names[overload] = _out_variant(overload) if emittable(overload) else ""
        name = names[overload]
        if name and name not in present:
            missing.setdefault(name, []).append(op.where)
    return [
        f"this runtime has no kernel for {name} (needed by {'; '.join(places[:3])}): the program"
        " needs one that you link"
        for name, places in sorted(missing.items())
    ]


def insist_on_all(findings: Sequence[Finding], reviews: Iterable[str], lost: Sequence[str]) -> None:
    """Stop at everything that is wrong with a plan, told in one error.

    Raises:
        PolicyError: the policy alone isn't met.
        LoweringError: a review found an error, or an op that was left can't be emitted.
    """
    if others := [*reviews, *lost]:
        policy = [given.message for given in findings if given.severity == "error"]
        raise LoweringError("\n".join([*policy, *others]))
    insist_on(findings)


def fitted(plan: Plan, graph: OpGraph) -> Plan:
    """A plan from elsewhere, perhaps edited by hand, with the graph that it is for."""
    if plan.fingerprint != graph.fingerprint:
        raise PlanError(
            f"the plan was made for another program: its fingerprint is {plan.fingerprint[:12]}, "
            f"this program's is {graph.fingerprint[:12]}; make a new plan"
        )
    settlement = Settlement(delegations=plan.delegations, losses=plan.losses)
    if faults := check_settlement(graph, settlement):
        raise PlanError("the plan can't be lowered: " + "; ".join(faults[:5]))
    return dataclasses.replace(plan, graph=graph)


def _flows(plan: Plan, graph: OpGraph) -> list[str]:
    taken, reasons = plan.delegation_of(), plan.reasons()
    left = [op for op in graph.ops if op.branches and op.id not in taken and op.target not in _FLOW]
    if not left:
        return []
    lines = "\n".join(f"  {op.where}: {reasons.get(op.id, UNASKED)}" for op in left)
    names = ", ".join(dict.fromkeys(op.target for op in left))
    text = (
        f"nobody takes {names}, and ExecuTorch emits no control flow but {', '.join(_FLOW)}:\n"
        f"{lines}\nUnroll the loop in the model, run it outside of the program, or give the op to a"
        " backend that takes it whole."
    )
    return [text]


def _effects(graph: OpGraph) -> list[str]:
    """Ops that torch orders by tokens, which neither delegates nor the emitter take."""
    lines = "\n".join(f"  {op.where}" for op in graph.ops if op.target == _EFFECTS)
    if not lines:
        return []
    text = (
        f"ExecuTorch emits no operator with side effects:\n{lines}\nTake it out of the model: use a"
        " form that checks and prints nothing, such as torch.linalg.inv_ex for torch.linalg.inv."
    )
    return [text]


def _without_variant(program: ExportedProgram, plan: Plan, graph: OpGraph) -> list[str]:
    left = [
        (op, overload) for op, overload in _left(program, plan, graph) if not is_custom(overload)
    ]
    register(str(overload).replace(".", "::", 1) for _, overload in left)
    lacking = {each for each in {overload for _, overload in left} if not emittable(each)}
    reasons = plan.reasons() if lacking else {}
    found: dict[str, list[str]] = {}
    for op, overload in left:
        if overload in lacking:
            text = f"  {op.where}: {reasons.get(op.id, UNASKED)}"
            found.setdefault(overload._schema.name, []).append(text)
    if not found:
        return []
    namespaces = dict.fromkeys(name.partition("::")[0] for name in found)
    modules = ", ".join(module for name in namespaces for module in libraries(name))
    advice = f", or import a build of {modules} that has it" if modules else ""
    text = (
        f"no out variant is registered for {', '.join(found)}, which no backend took:\n"
        + "\n".join(line for lines in found.values() for line in lines)
        + "\nRegister an out variant of the operator, give the op to a backend that takes it"
        f"{advice}."
    )
    return [text]


def _left(program: ExportedProgram, plan: Plan, graph: OpGraph) -> Iterator[tuple[Op, Any]]:
    """Ops outside every delegation that become calls of a kernel, with their overloads."""
    taken = plan.delegation_of()
    for id, node in nodes_by_id(program.graph_module):
        if id in taken or id not in graph or graph.op(id).bookkeeping:
            continue
        overload = written_by(node) or aten_overload(node.target)
        if not isinstance(overload, torch._ops.OpOverload) or overload in to_out_var_skiplist:
            continue
        if not str(overload).startswith(_REMOVED):
            yield graph.op(id), overload


def _out_variant(overload: Any) -> str:
    """ "aten::sort.values", as the runtime names it; "" where the op is called as it is."""
    try:
        out = out_variant(overload)
    except (RuntimeError, AssertionError):
        return ""
    name, variant = out._schema.name, out._schema.overload_name
    return f"{name}.{variant}" if variant else str(name)
