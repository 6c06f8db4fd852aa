"""Comparing a lowered program with eager, and finding the delegate at fault."""

from __future__ import annotations

import copy
from dataclasses import dataclass
from typing import TYPE_CHECKING

from torch.export.graph_signature import OutputKind

from cede.checking.calls import Call, copied, flat, in_eager
from cede.checking.compare import HALF, Difference, compare
from cede.checking.steps import steps_of
from cede.checking.walk import Seen, Walker
from cede.errors import ConfigError
from cede.running import load
from cede.types import Inputs, inputs_of

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    import torch
    from torch.export import ExportedProgram

    from cede.config import CheckConfig
    from cede.lowering import Lowered
    from cede.types import Backend, LoadedProgram

__all__ = [
    "HALF",
    "Call",
    "Check",
    "Difference",
    "Seen",
    "Walker",
    "check_program",
    "compare",
    "compared",
    "first_to_differ",
    "flat",
    "own_eager",
    "written_inputs",
]


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
    calls: Sequence[Call],
    backends: Mapping[str, Backend],
    tolerance: CheckConfig,
) -> Check:
    """Run the program and eager on the same calls, in order.

    Args:
        lowered: the program.
        calls: inputs of each call.
        backends: by name, for a program that ExecuTorch's own runtime can't run.
        tolerance: |program - eager| <= atol + rtol * |eager|; atol alone for integers.

    Raises:
        ConfigError: there is no call.
        LoweringError: the program can't be run here, or the inputs don't fit.
    """
    if not calls:
        raise ConfigError("check: there is no call to compare; give the inputs of at least one")
    source = lowered.source
    program = load(lowered.pte, backends)
    written = written_inputs(lowered.edge)
    found = compared(source, calls, program, tolerance, written, lowered.plan.method)
    worst = max(given.max_error for given in found)
    if not found[-1].fault:
        return Check(passed=True, max_error=worst, message=_agreed(found))
    first = first_to_differ(lowered, calls[: len(found)], backends, tolerance)
    return Check(
        passed=False,
        max_error=worst,
        message=f"call {len(found) - 1}: {found[-1].fault}; {_blamed(lowered, first)}",
        delegate=first.given.id if first is not None else "",
    )


def _agreed(found: Sequence[Difference]) -> str:
    total = sum(found, Difference())
    line = f"{len(found)} call(s) agree with eager, largest difference {total.max_error:.2g}"
    return f"{line}; {total.rounded}" if total.rounded else line


def _blamed(lowered: Lowered, first: Seen | None) -> str:
    if first is None:
        return (
            "every delegate alone agrees with eager on its own inputs, so the difference comes"
            " from the ops between them or from state"
        )
    given = first.given
    return (
        f"the first delegate that differs from eager on its own inputs is {given.id} of"
        f" {given.backend} ({len(given.ops)} ops from {lowered.graph.op(given.ops[0]).where}):"
        f" {first.difference.fault}"
    )


def compared(
    source: ExportedProgram,
    calls: Sequence[Call],
    program: LoadedProgram,
    tolerance: CheckConfig,
    written: Sequence[int] = (),
    method: str = "forward",
) -> list[Difference]:
    """One difference a call, until one is out of tolerance.

    Args:
        source: the exported program that it was made from.
        calls: inputs of each call; state lives from one to the next.
        program: loaded, and not called yet.
        tolerance: of the comparison.
        written: places of the inputs that it writes (`written_inputs`).
        method: of the program.

    Raises:
        LoweringError: the inputs don't fit.
    """
    eager = own_eager(source)
    steps = [*(0.0 for _ in written), *_own_steps(source)]
    found = []
    for number, call in enumerate(calls):
        own = inputs_of(copied_call(call))
        outputs = in_eager(eager, own, number)
        leaves = flat(own, source)
        wanted = [*(leaves[i] for i in written), *outputs]
        got = program.run(flat(call, source), method)
        found.append(compare(got, wanted, tolerance, steps))
        if found[-1].fault:
            break
    return found


def _own_steps(program: ExportedProgram) -> list[float]:
    """Of the outputs that a caller gets."""
    specs = program.graph_signature.output_specs
    given = zip(specs, steps_of(program.graph), strict=True)
    return [step for spec, step in given if spec.kind is OutputKind.USER_OUTPUT]


def copied_call(call: Call) -> Inputs:
    """A call with inputs of its own: eager may write into them."""
    given = inputs_of(call)
    return Inputs(args=copied(given.args), kwargs=copied(dict(given.kwargs)))


def own_eager(program: ExportedProgram) -> torch.nn.Module:
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


def first_to_differ(
    lowered: Lowered,
    calls: Sequence[Call],
    backends: Mapping[str, Backend],
    tolerance: CheckConfig,
) -> Seen | None:
    """The first delegate, in order of execution, that differs from eager on eager's values."""
    walker = Walker(lowered.edge, lowered.plan, backends, tolerance)
    for call in calls:
        for seen in walker.call(flat(call, lowered.source)):
            if seen.difference.fault:
                return seen
    return None


def written_inputs(program: ExportedProgram) -> list[int]:
    """Places of the flat inputs that the program writes: it returns them before its outputs.

    Args:
        program: a functional one; before that the signature doesn't tell.
    """
    names = list(program.graph_signature.user_inputs)
    return [
        names.index(spec.target)
        for spec in program.graph_signature.output_specs
        if spec.kind is OutputKind.USER_INPUT_MUTATION
    ]
