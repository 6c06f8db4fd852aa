"""Comparing a lowered program with eager, and finding the delegate at fault."""

from __future__ import annotations

import copy
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import torch
from executorch.exir.delegate import executorch_call_delegate
from torch.export.graph_signature import InputKind, OutputKind
from torch.fx import Interpreter
from torch.utils import _pytree as pytree

from cede.errors import ConfigError, LoweringError
from cede.running import load

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from torch.export import ExportedProgram
    from torch.fx import Node

    from cede.config import CheckConfig
    from cede.lowering import Lowered
    from cede.types import Backend, Delegation


HALF = {torch.bfloat16: 1.6e-2, torch.float16: 2e-3}
"""Rounding of half precision, relative."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Check:
    """The outcome of a comparison.

    Attributes:
        passed: whether every output of every call is within tolerance.
        max_error: largest absolute difference over all calls.
        message: a sentence; names the first delegate that differs.
        delegate: id of that delegate, "" where there is none.
    """

    passed: bool
    max_error: float
    message: str
    delegate: str = ""


def check_program(
    lowered: Lowered,
    calls: Sequence[Sequence[Any]],
    backends: Mapping[str, Backend],
    tolerance: CheckConfig,
) -> Check:
    """Run the program and eager on the same calls, in order.

    Args:
        lowered: the program.
        calls: positional inputs of each call.
        backends: by name, for a program that ExecuTorch's own runtime can't run.
        tolerance: |program - eager| <= atol + rtol * |eager|; atol alone for integers.

    Raises:
        ConfigError: there is no call.
        LoweringError: the program can't be run here, or the inputs don't fit.
    """
    if not calls:
        raise ConfigError("check: there is no call to compare; give the inputs of at least one")
    program = load(lowered.buffer, backends)
    eager = _eager(lowered.source)
    written = _written_inputs(lowered.edge)
    worst = 0.0
    for number, inputs in enumerate(calls):
        flat = pytree.tree_leaves(tuple(inputs))
        given = pytree.tree_map(_copied, tuple(inputs))  # eager may write its inputs
        outputs = _outputs(eager, given, number)
        leaves = pytree.tree_leaves(given)
        wanted = [*(leaves[i] for i in written), *outputs]
        got = program.run(flat)
        error, fault = _compare(got, wanted, tolerance)
        worst = max(worst, error)
        if fault:
            return _blame(lowered, calls[: number + 1], backends, tolerance, worst, number, fault)
    return Check(
        passed=True,
        max_error=worst,
        message=f"{len(calls)} call(s) agree with eager, largest difference {worst:.2g}",
    )


def _eager(program: ExportedProgram) -> torch.nn.Module:
    """The program in eager, with buffers of its own: the user's module keeps its state."""
    # Before functionalization the signature doesn't tell which buffers are written.
    written = set(program.graph_signature.buffers)
    own = copy.copy(program)
    own._state_dict = {
        key: value.clone() if key in written else value for key, value in program.state_dict.items()
    }
    own._constants = {
        key: value.clone() if key in written else value for key, value in program.constants.items()
    }
    return own.module()


def _outputs(eager: torch.nn.Module, given: tuple[Any, ...], number: int) -> list[Any]:
    """What eager gives for a call, flat."""
    try:
        with torch.no_grad():
            return pytree.tree_leaves(eager(*given))
    except Exception as error:
        said = " ".join(str(error).split())[:300]
        raise LoweringError(
            f"check: call {number}: eager can't take these positional inputs: "
            f"{type(error).__name__}: {said}"
        ) from error


def _written_inputs(program: ExportedProgram) -> list[int]:
    """Places of the flat inputs that the program writes: it returns them before its outputs."""
    names = list(program.graph_signature.user_inputs)
    return [
        names.index(spec.target)
        for spec in program.graph_signature.output_specs
        if spec.kind is OutputKind.USER_INPUT_MUTATION
    ]


def _blame(
    lowered: Lowered,
    calls: Sequence[Sequence[Any]],
    backends: Mapping[str, Backend],
    tolerance: CheckConfig,
    worst: float,
    number: int,
    fault: str,
) -> Check:
    head = f"call {number}: {fault}"
    for given, difference in _delegates_that_differ(lowered, calls, backends, tolerance):
        first = lowered.graph.op(given.ops[0])
        return Check(
            passed=False,
            max_error=worst,
            delegate=given.id,
            message=f"{head}; the first delegate that differs from eager on its own inputs is "
            f"{given.id} of {given.backend} ({len(given.ops)} ops from {first.where}): "
            f"{difference}",
        )
    return Check(
        passed=False,
        max_error=worst,
        message=f"{head}; every delegate alone agrees with eager on its own inputs, so the "
        "difference comes from the ops between them or from state",
    )


def _delegates_that_differ(
    lowered: Lowered,
    calls: Sequence[Sequence[Any]],
    backends: Mapping[str, Backend],
    tolerance: CheckConfig,
) -> Iterator[tuple[Delegation, str]]:
    """Delegates in execution order whose own runtime differs from eager on eager's values."""
    walker = _Walker(lowered, backends, tolerance)
    for inputs in calls:
        walker.call(pytree.tree_leaves(tuple(inputs)))
        yield from walker.found
        walker.found.clear()


class _Walker(Interpreter):
    """Runs the edge program in eager, and each delegate on the side in its runtime."""

    def __init__(
        self, lowered: Lowered, backends: Mapping[str, Backend], tolerance: CheckConfig
    ) -> None:
        self.program = lowered.edge
        super().__init__(self.program.graph_module)
        self.backends = backends
        self.tolerance = tolerance
        self.found: list[tuple[Delegation, str]] = []
        self.owner = lowered.plan.delegation_of()
        self.loaded: dict[str, Any] = {}
        self.state = {**self.program.constants, **self.program.state_dict}

    def call(self, inputs: Sequence[Any]) -> None:
        given = iter(inputs)
        signature = self.program.graph_signature
        values = [
            next(given) if spec.kind is InputKind.USER_INPUT else self.state[spec.target]
            for spec in signature.input_specs
        ]
        with torch.no_grad():
            results = self.run(*pytree.tree_map(_copied, values))
        for spec, value in zip(signature.output_specs, results, strict=True):
            if spec.kind is OutputKind.BUFFER_MUTATION:
                self.state[spec.target] = value

    def run_node(self, n: Node) -> Any:
        if n.target is not executorch_call_delegate:
            return super().run_node(n)
        args, _ = self.fetch_args_kwargs_from_env(n)
        module, inputs = args[0], args[1:]
        wanted = pytree.tree_leaves(module.original_module.module()(*inputs))
        given = self._delegation(module)
        if given is not None:
            name = str(n.args[0])
            if name not in self.loaded:
                self.loaded[name] = load(bytes(module.buffer()), self.backends)
            got = self.loaded[name].run(list(inputs))
            _, fault = _compare(got, wanted, self.tolerance)
            if fault:
                self.found.append((given, fault))
        return wanted

    def _delegation(self, module: Any) -> Delegation | None:
        for node in module.original_module.graph.nodes:
            if node.op == "call_function" and node.name in self.owner:
                return self.owner[node.name]
        return None


def _compare(
    got: Sequence[Any], wanted: Sequence[Any], tolerance: CheckConfig
) -> tuple[float, str]:
    """Largest absolute difference, and what is out of tolerance first ("" for nothing)."""
    if len(got) != len(wanted):
        return float("inf"), f"{len(got)} outputs instead of {len(wanted)}"
    worst = 0.0
    for i, (mine, other) in enumerate(zip(got, wanted, strict=True)):
        if not isinstance(other, torch.Tensor):
            if isinstance(mine, torch.Tensor) or mine != other:
                return float("inf"), f"output {i} is {mine} instead of {other}"
            continue
        if not isinstance(mine, torch.Tensor):
            return float("inf"), f"output {i} is {mine} instead of a tensor"
        if mine.shape != other.shape or mine.dtype != other.dtype:
            return float("inf"), (
                f"output {i} is {mine.dtype}{list(mine.shape)} instead of"
                f" {other.dtype}{list(other.shape)}"
            )
        error, close = _difference(mine, other, tolerance)
        worst = max(worst, error)
        if not close:
            return worst, f"output {i} differs by up to {error:.3g}"
    return worst, ""


def _difference(
    mine: torch.Tensor, other: torch.Tensor, tolerance: CheckConfig
) -> tuple[float, bool]:
    if not other.numel():
        return 0.0, True
    mine, other = mine.detach(), other.detach()
    if other.is_complex():
        mine, other = torch.view_as_real(mine), torch.view_as_real(other)
    same = (mine == other) | (mine.isnan() & other.isnan())
    first, second = mine.to(torch.float64), other.to(torch.float64)
    distance = torch.where(same, 0.0, (first - second).abs())
    if other.is_floating_point():
        # A half-precision result can't be closer than its own rounding.
        rounding = HALF.get(other.dtype, 0.0)
        rtol = max(tolerance.rtol, rounding)
        allowed = max(tolerance.atol, rounding) + rtol * second.abs()
        close = bool((same | (distance <= allowed) & second.isfinite()).all())
    else:
        # Large integers may differ and be one float64.
        distance = torch.where(same, 0.0, distance.clamp(min=1.0))
        close = bool((same | (distance <= tolerance.atol)).all())
    error = float(distance.nan_to_num(nan=float("inf"), posinf=float("inf")).max())
    return error, close


def _copied(value: Any) -> Any:
    return value.clone() if isinstance(value, torch.Tensor) else value
