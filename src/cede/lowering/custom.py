"""Custom operators: decomposed where nobody wants them whole, refused where nothing can emit them.

An operator is custom if its namespace belongs neither to torch nor to a library whose operators
ExecuTorch's own passes still rewrite before emission.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch
from executorch.exir.dialects.edge.op.api import to_variant
from executorch.exir.operator.convert import to_out_variant
from torch._decomp import decomposition_table
from torch.fx import GraphModule
from torchgen.model import FunctionSchema, SchemaKind  # type: ignore[import-untyped]

from cede.errors import LoweringError
from cede.facts.arguments import aten_overload, written_by
from cede.lowering.tags import nodes_by_id
from cede.planning import UNASKED
from cede.running.libraries import NAMESPACES

if TYPE_CHECKING:
    from collections.abc import Callable, Collection

    from torch.export import ExportedProgram

    from cede.planning import Plan
    from cede.types import OpGraph

_TORCH = ("aten", "prims", "prim", "quantized", "higher_order", "inductor", "executorch_prim")


def is_custom(op: Any) -> bool:
    """Whether an operator overload is somebody's own."""
    return isinstance(op, torch._ops.OpOverload) and op.namespace not in (*_TORCH, *NAMESPACES)


def registered(op: Any) -> Callable[..., Any] | None:
    """The decomposition of a custom operator that was registered with torch, None if none was.

    `torch._decomp.register_decomposition` registers one. An operator with a kernel for
    CompositeImplicitAutograd isn't meant: torch decomposes that by itself.
    """
    return decomposition_table.get(op) if is_custom(op) else None


def decomposed(program: ExportedProgram, whole: Callable[[Any], bool]) -> ExportedProgram:
    """The program without the custom operators that have a registered decomposition.

    Args:
        program: from `torch.export.export`; it is left as it is.
        whole: asked for each such operator: True leaves its calls.

    Raises:
        LoweringError: a decomposition failed.
    """
    found = {
        node.target
        for module in program.graph_module.modules()
        if isinstance(module, GraphModule)
        for node in module.graph.nodes
        if is_custom(node.target)
    }
    table = {op: rule for op in found if (rule := registered(op)) is not None and not whole(op)}
    if not table:
        return program
    try:
        result: ExportedProgram = program.run_decompositions(table)
    except Exception as error:
        names = ", ".join(sorted(map(str, table)))
        raise LoweringError(
            f"nobody wants {names} whole, and its registered decomposition failed:"
            f" {type(error).__name__}: {str(error).strip().splitlines()[0][:300]}."
            " Mend the decomposition, or have a partitioner name the operator in keeps()."
        ) from error
    return result


def stranded(program: ExportedProgram, plan: Plan, graph: OpGraph) -> str:
    """What to say of custom ops that are in no delegation and that ExecuTorch can't emit.

    Args:
        program: the edge program.
        plan: for it.
        graph: its facts.

    Returns:
        A text that names each op, its place, and every partitioner's reason; "" if there is none.
    """
    taken, reasons = plan.delegation_of(), plan.reasons()
    found: dict[str, list[str]] = {}
    for id, node in nodes_by_id(program.graph_module):
        op = written_by(node) or aten_overload(node.target)
        if id not in taken and is_custom(op) and not emittable(op):
            text = f"  {graph.op(id).where}: {reasons.get(id, UNASKED)}"
            found.setdefault(str(op), []).append(text)
    if not found:
        return ""
    first = next(iter(found))
    return (
        f"nobody takes {', '.join(found)}, and ExecuTorch can't emit a custom op without an out"
        " variant:\n"
        + "\n".join(line for lines in found.values() for line in lines)
        + f"\nGive it to a backend: a partitioner that claims {first}. Or register a decomposition"
        " (torch._decomp.register_decomposition), or an out variant"
        f" ({first.rpartition('.')[0].replace('.', '::')}.out) and link a kernel for it."
    )


def unclaimed(program: ExportedProgram, ops: Collection[Any], claimed: Collection[str]) -> set[Any]:
    """Those of some operators that stand in the edge program outside every delegation."""
    return {
        op
        for id, node in nodes_by_id(program.graph_module)
        if (op := aten_overload(node.target)) in ops and id not in claimed
    }


def emittable(op: Any) -> bool:
    """Whether ExecuTorch's emission finds the variant that it calls."""
    try:
        if FunctionSchema.parse(str(op._schema)).kind() is SchemaKind.inplace:
            return True
        out_variant(op)
    except (RuntimeError, AssertionError, AttributeError, ValueError):
        return False  # no such variant, or a schema that torchgen does not take
    return True


def out_variant(op: Any) -> Any:
    """The overload that is called in place of an op.

    Raises RuntimeError, AssertionError, AttributeError or ValueError where there is none.
    """
    try:
        return to_out_variant(op)[0]
    except AssertionError:
        # Two scalar overloads of one signature (`aten::pow`): emission asks this for edge ops.
        return to_variant(op, SchemaKind.out)
