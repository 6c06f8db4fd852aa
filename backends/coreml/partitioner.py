"""The stock Core ML partitioner adopted, minus what its delegate gets wrong."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from cede.backends.coreml.arguments import decomposes
from cede.backends.coreml.here import DELEGATE_ID, missing
from cede.backends.coreml.options import CoreMLOptions, Precision, compile_specs
from cede.backends.coreml.vetoes import (
    arguments,
    exact_gelu,
    tensors,
    wide_integers,
    without_inputs,
)
from cede.partitioners.adopt import Adopted
from cede.partitioners.rules import Veto, Vetoed
from cede.types import Code, Keep, Reason, Refusal

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from cede.types import Claim, Program


def _as_they_are(options: Any) -> CoreMLOptions:
    return options if isinstance(options, CoreMLOptions) else CoreMLOptions()


@dataclass(frozen=True, slots=True, kw_only=True)
class CoreMLPartitioner:
    """Asks ExecuTorch's Core ML partitioner.

    Attributes:
        name: name of the partitioner.
        backend: name of the backend that it claims for.
        options: Core ML's options from those of the backend.
    """

    name: str = "coreml"
    backend: str = "coreml"
    options: Callable[[Any], CoreMLOptions] = _as_they_are

    def keeps(self, program: Program) -> Keep:
        """What the stock partitioner wants whole and can have; nothing where it can't be asked.

        An operator with one call that must be decomposed is decomposed everywhere: keeping some of
        its calls takes a filter, with which ExecuTorch fails on views of transposed tensors.
        """
        if missing() is not None:
            return Keep()
        nodes = [node for node in program.exported.graph.nodes if node.op == "call_function"]
        broken = {node.target for node in nodes if decomposes(node)}
        keep = self._vetoed(program).keeps(program)
        return replace(keep, ops=tuple(op for op in keep.ops if op not in broken))

    def claim(self, program: Program) -> Iterator[Claim | Refusal]:
        """The stock partitioner's answers; refusals where it can't be asked."""
        if (why := missing()) is None:
            yield from self._vetoed(program).claim(program)
            return
        for op in program.graph.ops:
            reason = Reason(code=Code.UNAVAILABLE, detail=why)
            yield Refusal(partitioner=self.name, op=op.id, reason=reason)

    def _vetoed(self, program: Program) -> Vetoed:
        vetoes: list[Veto] = [tensors, arguments, wide_integers]
        options = self.options(program.options)
        if options.compute_precision is Precision.float32:
            vetoes.append(exact_gelu)
        if options.minimum_deployment_target.needs_inputs:
            vetoes.append(without_inputs(program.graph))
        inner = Adopted(
            name=self.name, backend=self.backend, delegate_id=DELEGATE_ID, make=self._stock
        )
        return Vetoed(inner=inner, vetoes=tuple(vetoes))

    def _stock(self, options: Any) -> Any:
        from executorch.backends.apple.coreml import partition
        from executorch.exir.backend.compile_spec_schema import CompileSpec

        specs = compile_specs(self.options(options))
        return partition.CoreMLPartitioner(compile_specs=[CompileSpec(*spec) for spec in specs])
