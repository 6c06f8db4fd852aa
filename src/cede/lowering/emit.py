"""From the edge program with its delegates to the `.pte`."""

from __future__ import annotations

import copy
import re
import warnings
from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch
from executorch.exir import ExecutorchBackendConfig
from executorch.exir.passes import MemoryPlanningPass

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
    from collections.abc import Sequence

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


@dataclass(frozen=True, slots=True, kw_only=True)
class Part:
    """A method of a program that is to be emitted.

    Attributes:
        plan: that it was lowered by; its method is the name.
        source: the exported program.
        notes: warnings so far.
    """

    plan: Plan
    source: ExportedProgram
    notes: tuple[str, ...] = ()

    @property
    def graph(self) -> OpGraph:
        """The facts of the edge program."""
        assert self.plan.graph is not None  # noqa: S101  (a plan made here has its graph)
        return self.plan.graph


def emit(
    edge: EdgeProgramManager,
    parts: Sequence[Part],
    config: LoweringConfig | None = None,
    *,
    share_state: bool = False,
) -> tuple[Lowered, ...]:
    """Emit the ExecuTorch program: its methods, all with the same bytes.

    Args:
        edge: the edge program with its delegates.
        parts: its methods.
        config: how it is lowered; None is the default.
        share_state: buffers that are written have one place in the memory of all methods, by name.

    Raises:
        LoweringError: an op that was left has no kernel to call; names op, module and source.
    """
    stock = config is not None and config.stock
    programs = {part.plan.method: edge.exported_program(part.plan.method) for part in parts}
    for program in () if stock else programs.values():
        drop_unread(program)
        drop_initial(program)
    intact = {name: _intact(program) for name, program in programs.items()}
    executorch = _emitted(edge, parts, config, share_state)
    once = not stock and not unknown_version()
    if once:
        store_once(executorch)
    return tuple(_lowered(part, intact[part.plan.method], executorch, once) for part in parts)


def _lowered(
    part: Part, edge: ExportedProgram, executorch: ExecutorchProgramManager, once: bool
) -> Lowered:
    plan, graph, source = part.plan, part.graph, part.source
    memory = memory_use(executorch, plan.method)
    constants = stored(executorch, edge, source, plan, graph, once)
    more = (*told(memory), *told_twice(constants), *told_views(source))
    return Lowered(
        plan=plan,
        graph=graph,
        memory=memory,
        emission=Emitted(source=source, edge=edge, executorch=executorch),
        constants=constants,
        warnings=(*part.notes, *_missing_kernels(executorch, plan, graph), *more),
    )


def _emitted(
    edge: EdgeProgramManager, parts: Sequence[Part], config: LoweringConfig | None, share: bool
) -> ExecutorchProgramManager:
    for part in parts:
        _register_left(part.plan, part.graph)
    try:
        # The emitter writes buffers in place, also those that a trained weight flows into.
        with torch.no_grad(), warnings.catch_warnings():
            # Buffers keep their initial values here (`tags.py`), and the report lists them.
            warnings.filterwarnings("ignore", message="Mutation on a buffer in the model")
            memory = MemoryPlanningPass(share_mutable_buffers=share)
            settings = ExecutorchBackendConfig(
                external_constants=place(edge, config), memory_planning_pass=memory
            )
            return edge.to_executorch(settings)
    except Exception as error:
        missing = re.findall(r"'([\w:.]+)'", str(error)) if "out variants" in str(error) else []
        if missing:
            raise LoweringError(_no_out_variant(missing, parts)) from None
        raise upstream_error("emit the program", error, parts[0].plan) from error


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


def _no_out_variant(missing: list[str], parts: Sequence[Part]) -> str:
    lines: dict[str, None] = {}
    for part in parts:
        taken, reasons = part.plan.delegation_of(), part.plan.reasons()
        for name in missing:
            kind = name.replace("::", ".")
            for op in part.graph.ops:
                if op.id not in taken and op.target.startswith(kind):
                    lines[f"  {op.where}: {reasons.get(op.id, UNASKED)}"] = None
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
