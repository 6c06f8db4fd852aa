"""Edge programs that were lowered one by one, as the methods of one.

`EdgeProgramManager` (`exir/program/_program.py`, 1.5.1) is made by `to_edge` alone in ExecuTorch's
own steps; it collects what delegates hold when it is made.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from executorch.exir import EdgeProgramManager

if TYPE_CHECKING:
    from collections.abc import Mapping


def together(
    edges: Mapping[str, EdgeProgramManager], metadata: Mapping[str, Any] | None = None
) -> EdgeProgramManager:
    """One edge program.

    Args:
        edges: of one method each, by the name that it shall have.
        metadata: methods that return constants.
    """
    first = next(iter(edges.values()))
    return EdgeProgramManager(
        {name: edge.exported_program() for name, edge in edges.items()},
        constant_methods=dict(metadata) if metadata else None,
        compile_config=first.compile_config,
        core_aten_ops_exception_list=first.compile_config._core_aten_ops_exception_list,
    )
