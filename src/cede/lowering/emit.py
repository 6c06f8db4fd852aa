"""From the edge program with its delegates to the `.pte`."""

from __future__ import annotations

import copy
import re
import warnings
from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch
from executorch.exir import ExecutorchBackendConfig

from cede.errors import LoweringError
from cede.lowering.external import place
from cede.lowering.inside_executorch import unknown_version
from cede.lowering.inside_executorch.once import store_once
from cede.lowering.memory import memory_use, told
from cede.lowering.stored import stored, told_twice, told_views
from cede.lowering.unread import drop_unread
from cede.lowering.upstream import upstream_error
from cede.lowering.written_first import drop_initial
from cede.planning import UNASKED
from cede.programs.lowered import Lowered
from cede.running.weights import ADAPTERS

if TYPE_CHECKING:
    from executorch.exir import EdgeProgramManager, ExecutorchProgramManager
    from torch.export import ExportedProgram

    from cede.config import LoweringConfig
    from cede.planning import Plan
    from cede.types import OpGraph


@dataclass(frozen=True, slots=True, kw_only=True)
class Emitted:
    """What came out of lowering just now, as `Emission` has it."""

    source: ExportedProgram
    edge: ExportedProgram
    executorch: ExecutorchProgramManager

    @property
    def buffer(self) -> bytes:
        """The bytes of the `.pte`."""
        return bytes(self.executorch.buffer)

    @property
    def weights(self) -> bytes:
        """The bytes of the `.ptd`, b"" where there is none."""
        return self._file(adapters=False)

    @property
    def adapters(self) -> bytes:
        """The bytes of an adapter's own `.ptd`, b"" where there is none."""
        return self._file(adapters=True)

    def _file(self, *, adapters: bool) -> bytes:
        files = self.executorch._tensor_data.items()
        return b"".join(bytes(data) for tag, data in files if (tag == ADAPTERS) is adapters)


def emit(
    edge: EdgeProgramManager,
    plan: Plan,
    graph: OpGraph,
    source: ExportedProgram,
    notes: tuple[str, ...] = (),
    config: LoweringConfig | None = None,
) -> Lowered:
    """Emit the ExecuTorch program.

    Args:
        edge: the edge program with its delegates.
        plan: that it was lowered by.
        graph: its facts.
        source: the exported program.
        notes: warnings so far.
        config: how it is lowered; None is the default.

    Raises:
        LoweringError: an op that was left has no kernel to call; names op, module and source.
    """
    stock = config is not None and config.stock
    for drop in () if stock else (drop_unread, drop_initial):
        drop(edge.exported_program())
    intact = _intact(edge.exported_program())
    executorch = _emitted(edge, plan, graph, config)
    once = not stock and not unknown_version()
    if once:
        store_once(executorch)
    memory = memory_use(executorch, plan.method)
    constants = stored(executorch, intact, source, plan, graph, once)
    more = (*told(memory), *told_twice(constants), *told_views(source))
    return Lowered(
        plan=plan,
        graph=graph,
        memory=memory,
        emission=Emitted(source=source, edge=intact, executorch=executorch),
        constants=constants,
        warnings=(*notes, *_missing_kernels(executorch, plan, graph), *more),
    )


def _emitted(
    edge: EdgeProgramManager, plan: Plan, graph: OpGraph, config: LoweringConfig | None
) -> ExecutorchProgramManager:
    _register_left(plan, graph)
    try:
        # The emitter writes buffers in place, also those that a trained weight flows into.
        with torch.no_grad(), warnings.catch_warnings():
            # Buffers keep their initial values here (`tags.py`), and the report lists them.
            warnings.filterwarnings("ignore", message="Mutation on a buffer in the model")
            settings = ExecutorchBackendConfig(external_constants=place(edge, config))
            return edge.to_executorch(settings)
    except Exception as error:
        missing = re.findall(r"'([\w:.]+)'", str(error)) if "out variants" in str(error) else []
        if missing:
            raise LoweringError(_no_out_variant(missing, plan, graph)) from None
        raise upstream_error("emit the program", error, plan) from error


def _intact(program: ExportedProgram) -> ExportedProgram:
    """The program with graphs of its own, for emission rewrites those it is given."""
    result = copy.copy(program)
    result._graph_module = _own_graphs(program.graph_module)
    return result


def _own_graphs(module: torch.fx.GraphModule) -> torch.fx.GraphModule:
    result = torch.fx.GraphModule(module, copy.deepcopy(module.graph))
    for name, child in module.named_children():
        if isinstance(child, torch.fx.GraphModule):  # a branch; delegates stay as they are
            setattr(result, name, _own_graphs(child))
    result.meta.update(module.meta)
    return result


def _register_left(plan: Plan, graph: OpGraph) -> None:
    """Import the out variants of ops that were left, where ExecuTorch has them in a library."""
    from cede.running.libraries import register

    taken = plan.delegation_of()
    left = {op.kind for op in graph.ops if op.id not in taken}
    register(kind.replace(".", "::", 1) for kind in left if not kind.startswith("aten."))


def _no_out_variant(missing: list[str], plan: Plan, graph: OpGraph) -> str:
    lines = []
    taken, reasons = plan.delegation_of(), plan.reasons()
    for name in missing:
        kind = name.replace("::", ".")
        for op in graph.ops:
            if op.id not in taken and op.target.startswith(kind):
                lines.append(f"  {op.where}: {reasons.get(op.id, UNASKED)}")
    return (
        f"no out variant is registered for {', '.join(missing)}, which no backend took:\n"
        + "\n".join(lines)
        + "\nRegister an out variant of the operator, or give the op to a backend that takes it."
    )


def _missing_kernels(executorch: ExecutorchProgramManager, plan: Plan, graph: OpGraph) -> list[str]:
    """Operators of the program that the runtime of this wheel doesn't have."""
    from executorch.runtime import Runtime

    from cede.running.libraries import register

    operators = {
        f"{op.name}.{op.overload}" if op.overload else op.name
        for method in executorch.executorch_program.execution_plan
        for op in method.operators
    }
    register(operators)
    present = Runtime.get().operator_registry.operator_names
    return [
        f"this runtime has no kernel for {name}{_where(name, plan, graph)}: the program needs one "
        "that you link"
        for name in sorted(operators - set(present))
    ]


def _where(operator: str, plan: Plan, graph: OpGraph) -> str:
    kind = operator.rpartition(".")[0].replace("::", ".")
    taken = plan.delegation_of()
    found = [op.where for op in graph.ops if op.kind == kind and op.id not in taken]
    return f" (needed by {'; '.join(found[:3])})" if found else ""
