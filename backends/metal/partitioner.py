"""The stock partitioner of the chosen engine, adopted."""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, Any

from cede.backends.coreml.partitioner import CoreMLPartitioner
from cede.backends.metal import gguf
from cede.backends.metal.engines import MLX_ID, MLX_SPECS, Engine, chosen, coreml_options
from cede.backends.metal.generated import import_mlx
from cede.backends.metal.vetoes import arguments, sizes
from cede.partitioners.adopt import Adopted
from cede.partitioners.rules import Vetoed
from cede.types import Code, Keep, Reason, Refusal

if TYPE_CHECKING:
    from collections.abc import Iterator

    from cede.types import Claim, Partitioner, Program

NAME = "metal"


class MetalPartitioner:
    """Asks ExecuTorch's MLX or Core ML partitioner, as the options say."""

    name = NAME
    backend = NAME

    def keeps(self, program: Program) -> Keep:
        """What the engine's stock partitioner wants whole; nothing where it can't be asked."""
        engine, why = chosen(program.options)
        return Keep() if why is not None else _partitioner(engine).keeps(program)

    def claim(self, program: Program) -> Iterator[Claim | Refusal]:
        """The engine's answers; refusals where it can't be asked."""
        engine, why = chosen(program.options)
        if why is None:
            yield from _partitioner(engine).claim(program)
            return
        for op in program.graph.ops:
            reason = Reason(code=Code.UNAVAILABLE, detail=why)
            yield Refusal(partitioner=NAME, op=op.id, reason=reason)


def _partitioner(engine: Engine) -> Partitioner:
    if engine is Engine.coreml:
        return CoreMLPartitioner(name=NAME, backend=NAME, options=coreml_options)
    inner = Adopted(name=NAME, backend=NAME, delegate_id=MLX_ID, make=_mlx)
    return Vetoed(inner=inner, vetoes=(arguments, sizes))


def _mlx(options: Any) -> Any:
    from executorch.exir.backend.compile_spec_schema import CompileSpec

    return _anywhere()([CompileSpec(*spec) for spec in MLX_SPECS])


@cache
def _anywhere() -> Any:
    """ExecuTorch's MLX partitioner, that works whoever calls it.

    The stock one looks for `to_edge_transform_and_lower` on the call stack, to be sure that ops
    were kept whole. Here that is settled before it is asked.
    """
    import_mlx()
    from executorch.backends.mlx.partitioner import MLXPartitioner

    gguf.register()

    class Anywhere(MLXPartitioner):  # type: ignore[misc]
        @staticmethod
        def _is_to_edge_transform_and_lower() -> bool:
            return True

    return Anywhere
