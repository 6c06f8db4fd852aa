"""Delegates cut out in one pass over the graph, and compiled one after the other.

Stock ExecuTorch sorts the whole graph anew after each partition that it cuts out, and copies all
partitions, weights and all, before it compiles the first.
"""

from __future__ import annotations

import copy
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, TypeAlias

from executorch.exir import lowered_backend_module
from executorch.exir.backend import backend_api
from executorch.exir.backend.backend_details import BackendDetails, PreprocessResult
from torch.fx import Graph, GraphModule
from torch.fx.passes.tools_common import stable_topological_sort

from cede.lowering.inside_executorch.retrace import compiling

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator

    from executorch.exir.backend.compile_spec_schema import CompileSpec
    from torch.export import ExportedProgram
    from torch.fx import Node

    from cede.lowering.apart import Apart
    from cede.lowering.inside_executorch.patching import Patch

Compile: TypeAlias = (
    "Callable[[str, ExportedProgram, list[CompileSpec], Callable[[], PreprocessResult]],"
    " PreprocessResult]"
)
"""Backend id, what is compiled, with which specs, and what compiles it -> what came out."""

_compile: Any = None
_pure: frozenset[str] = frozenset()
_apart: Apart | None = None


@contextmanager
def through(
    compile: Compile | None, pure: Collection[str], apart: Apart | None = None
) -> Iterator[None]:
    """Compile the delegates of some backends through a function.

    Args:
        compile: called for each of their delegates; None just compiles.
        pure: ids of backends whose compilers leave the weights that they are given as they are:
            those get no copy of them.
        apart: runs the compilers of all backends elsewhere; None runs them here.
    """
    global _compile, _pure, _apart
    before = _compile, _pure, _apart
    _compile, _pure, _apart = compile, frozenset(pure), apart
    try:
        yield
    finally:
        _compile, _pure, _apart = before


def _cut_out(stock: Callable[..., Any]) -> Callable[..., Any]:
    def cut_out(module: GraphModule, *args: Any, **kwargs: Any) -> Any:
        made = stock(module, *args, **kwargs)
        if not made:
            return made
        stable_topological_sort(module)
        now = {node.name: node for node in module.graph.nodes if node.op == "call_module"}
        wanted = {backend: {node.name for node in nodes} for backend, nodes in made.items()}
        return {
            backend: [node for name, node in now.items() if name in names]
            for backend, names in wanted.items()
        }

    return cut_out


def _one_by_one(cls: type[BackendDetails]) -> bool:
    """Whether a backend compiles each partition by itself."""
    own = cls.preprocess_multimethod.__func__
    copies = cls.copy_exported_program_for_preprocess.__func__
    return (
        own is BackendDetails.preprocess_multimethod.__func__
        and copies is BackendDetails.copy_exported_program_for_preprocess.__func__
    )


def shallow(program: ExportedProgram) -> ExportedProgram:
    """A program with a graph of its own and the same weights."""
    graph = Graph()
    values: dict[Any, Any] = {}
    made: Any = graph.graph_copy(program.graph, values, return_output_node=True)
    assert made is not None  # noqa: S101  (every program has an output)
    output, old = made
    graph.output(output).meta.update(old.meta)
    graph._codegen = program.graph._codegen
    result = copy.copy(program)
    result._graph_module = GraphModule(program.graph_module, graph)
    result._graph_module.meta.update(program.graph_module.meta)
    result._graph_signature = copy.deepcopy(program.graph_signature)
    result._state_dict = dict(program.state_dict)
    result._constants = dict(program.constants)
    result._range_constraints = copy.copy(program.range_constraints)
    return result


def _lower_all(stock: Callable[..., Any]) -> Callable[..., Any]:
    def lower_all(
        backend: str, nodes: dict[str, list[Node]], programs: dict[str, ExportedProgram]
    ) -> None:
        kinds = {kind.__name__: kind for kind in BackendDetails.__subclasses__()}
        if backend not in kinds or not _one_by_one(kinds[backend]):
            if _apart is not None:
                _apart.unheld(f"{backend}, which compiles all its delegates together")
            stock(backend, nodes, programs)
            return
        for method, calls in nodes.items():
            for call in calls:
                _lower(kinds[backend], call, programs[method])

    return lower_all


def _lower(kind: type[BackendDetails], call: Node, owner: ExportedProgram) -> None:
    given, specs = call.meta["submodule_program"], call.meta["compile_spec"]
    backend = kind.__name__

    def compiled() -> PreprocessResult:
        if backend not in _pure:
            return kind.preprocess(copy.deepcopy(given), specs)
        own = shallow(given)
        with compiling(own.graph_module):
            return kind.preprocess(own, specs)

    def work() -> PreprocessResult:
        return compiled() if _apart is None else _apart(given, compiled)

    through_it = _compile is not None and backend in _pure
    made = _compile(backend, given, specs, work) if through_it else work()
    module = lowered_backend_module.LoweredBackendModule(
        edge_program=given,
        backend_id=backend,
        processed_bytes=made.processed_bytes,
        compile_specs=specs,
        named_data_store_output=made.data_store_output,
    )
    module.meta = {"debug_handle_map": made.debug_handle_map}
    if made._delegate_info_meta is not None:
        module.meta["_delegate_info_meta"] = made._delegate_info_meta
    meta = call.meta
    backend_api._insert_lowered_submodule(
        given, owner, call, meta["submodule_output_node"], module, meta["is_submodule"],
        meta["toplevel_input_specs_to_delete"], meta["toplevel_output_specs_to_delete"],
    )  # fmt: skip


def patches() -> list[Patch]:
    """How partitions are cut out and compiled."""
    return [
        (lowered_backend_module, "legalize_graph", lambda _: lambda module: module),
        (backend_api, "_create_partitions_in_graph_module", _cut_out),
        (backend_api, "lower_all_submodules_to_backend", _lower_all),
    ]
