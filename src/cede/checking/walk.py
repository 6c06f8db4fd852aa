"""Every delegate alone, in its own runtime, on the values that eager has there."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import torch
from executorch.exir.delegate import executorch_call_delegate
from torch.export.graph_signature import InputKind, OutputKind
from torch.fx import Interpreter
from torch.utils import _pytree as pytree

from cede.checking.calls import copied
from cede.checking.compare import Difference, compare
from cede.checking.steps import steps_of
from cede.errors import LoweringError
from cede.running.single import Single, delegate_of, given_to

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from torch.export import ExportedProgram
    from torch.fx import Node

    from cede.config import CheckConfig
    from cede.planning import Plan
    from cede.types import Backend, Delegation


@dataclass(frozen=True, slots=True, kw_only=True)
class Seen:
    """One call of one delegate: its delegation, and how far it is from eager."""

    given: Delegation
    difference: Difference


class Walker(Interpreter):
    """Runs an edge program in eager, and each delegate on the side in its runtime.

    What a delegate gives is compared and thrown away: the ops behind it get eager's values.

    Args:
        program: the edge program with its delegates; its state lives from one call to the next.
        plan: that the program was lowered by.
        backends: by name.
        tolerance: of the comparison.
        only: id of the delegation to look at; None looks at all.
    """

    def __init__(
        self,
        program: ExportedProgram,
        plan: Plan,
        backends: Mapping[str, Backend],
        tolerance: CheckConfig,
        only: str | None = None,
    ) -> None:
        super().__init__(program.graph_module)
        self.program = program
        self.backends = backends
        self.tolerance = tolerance
        self.only = only
        self.seen: list[Seen] = []
        self.owner = plan.delegation_of()
        self.loaded: dict[str, Single] = {}
        self.eager: dict[str, torch.nn.Module] = {}
        self.state = {**program.constants, **program.state_dict}

    def call(self, inputs: Sequence[Any]) -> list[Seen]:
        """One call with flat inputs; its delegates in execution order.

        Raises:
            LoweringError: a delegate can't be run here.
        """
        self.seen = []
        given = iter(inputs)
        signature = self.program.graph_signature
        values = [
            next(given) if spec.kind is InputKind.USER_INPUT else self.state[spec.target]
            for spec in signature.input_specs
        ]
        with torch.no_grad():
            results = self.run(*copied(values))
        for spec, value in zip(signature.output_specs, results, strict=True):
            if spec.kind is OutputKind.BUFFER_MUTATION:
                self.state[spec.target] = value
        return self.seen

    def run_node(self, n: Node) -> Any:
        """One node; a delegate's value is what its ops give in eager."""
        if n.target is not executorch_call_delegate:
            return super().run_node(n)
        args, _ = self.fetch_args_kwargs_from_env(n)
        module, inputs = args[0], args[1:]
        name = str(n.args[0])
        if name not in self.eager:  # making it copies the graph
            self.eager[name] = module.original_module.module()
        wanted = pytree.tree_leaves(self.eager[name](*inputs))
        given = given_to(module, self.owner)
        if given is not None and self.only in (None, given.id):
            difference = self._compared(name, module, list(inputs), wanted, given)
            self.seen.append(Seen(given=given, difference=difference))
        return wanted

    def _compared(
        self, name: str, module: Any, inputs: list[Any], wanted: list[Any], given: Delegation
    ) -> Difference:
        try:
            if name not in self.loaded:
                self.loaded[name] = Single(delegate_of(module), self.backends)
            got = self.loaded[name].run(inputs, wanted)
        except LoweringError as error:
            raise LoweringError(f"delegate {given.id} of {given.backend} alone: {error}") from error
        steps = steps_of(module.original_module.graph)
        return compare(got, wanted, self.tolerance, steps)
