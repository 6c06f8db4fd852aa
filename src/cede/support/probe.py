"""What a child process does: ask about, lower and run a group of samples."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import TYPE_CHECKING

import torch

from cede import api
from cede.checking import HALF
from cede.config import LimitsConfig, PolicyConfig
from cede.errors import CedeError, LoweringError
from cede.host import Host
from cede.running import load
from cede.support.joint import SIZES, Group, Joint, first_line, group
from cede.support.records import Answer, Outcome
from cede.types import Code

if TYPE_CHECKING:
    from collections.abc import Sequence

    from cede.config import CheckConfig, Config
    from cede.lowering import Lowered
    from cede.types import Op
    from cede.whatif import Asked

Answered = tuple[Answer, str, str]
"""Answer, code and reason."""

Ended = tuple[Outcome, str]
"""Outcome and detail."""


def only(config: Config, backend: str) -> Config:
    """The config with one backend, all its partitioners and no bounds: an op alone may be few."""
    return replace(
        config,
        backends=[backend],
        partitioners=[],
        limits={backend: LimitsConfig(min_ops=0, min_bytes=0)},
        policy=PolicyConfig(),
        settle="priority",
        costs="",
    )


def answers(
    config: Config, backend: str, names: tuple[str, ...], dtype: str, dynamic: bool
) -> dict[str, Answered]:
    """Ask one backend's partitioners.

    Raises:
        NotExported: `torch.export` rejects one of several samples.
        CedeError: they can't be converted or asked together.
    """
    made = group(names, dtype, dynamic)
    found = {name: (Answer.NOT_IN_TORCH, "", why) for name, why in made.rejected.items()}
    if made.program is None:
        return found
    asked = api.asked(made.program, only(config, backend))
    warnings = [text for each in asked.answers for text in each.warnings]
    if warnings:
        raise CedeError("; ".join(warnings))
    for name, symbolic, ops in zip(made.names, made.symbolic, made.parts(asked.graph), strict=True):
        if dynamic and not any(symbolic):
            why = "torch.export finds its sizes fixed" if symbolic else "it has no input"
            found[name] = (Answer.STATIC_ONLY, "", why)
        else:
            found[name] = _answer(asked, ops)
    return found


def _answer(asked: Asked, ops: Sequence[Op]) -> Answered:
    computing = [op for op in ops if not op.bookkeeping]
    if not computing:
        return Answer.NOTHING, "", "no op is left in the edge program"
    claimed = {id for each in asked.answers for claim in each.claims for id in claim.ops}
    left = [op for op in computing if op.id not in claimed]
    if not left:
        return Answer.CLAIMED, "", ""
    first = left[0]
    reasons = {row.op: row.reason for each in asked.answers for row in each.refusals}
    reason = reasons[first.id]
    # ids and symbols have numbers that depend on what else is in the program
    detail = re.sub(r"\bs\d+\b", "s", reason.detail.replace(first.id, first.target))
    told = Answer.REFUSED if len(left) == len(computing) else Answer.PARTLY
    return told, reason.code.value, f"{first.target}: {detail}"


def outcomes(
    config: Config, backend: str, names: tuple[str, ...], dtype: str, dynamic: bool, run: bool
) -> dict[str, Ended | None]:
    """Lower claimed samples together, and run them.

    Returns:
        By name; None for one that must be looked at alone.

    Raises:
        NotExported: as `answers`.
        CedeError: they can't be lowered or run together.
    """
    made, alone = group(names, dtype, dynamic), only(config, backend)
    assert made.program is not None  # noqa: S101  (claimed, so exported)
    try:
        lowered = api.lower(made.program, config=alone)
    except LoweringError as error:
        if len(names) > 1:
            raise
        return {names[0]: (Outcome.NOT_LOWERED, first_line(error))}
    missing = _missing(made, lowered)
    if missing and len(names) == 1:
        return {names[0]: (Outcome.NOT_LOWERED, missing[names[0]])}
    found: dict[str, Ended | None] = dict.fromkeys(names, (Outcome.LOWERED, ""))
    if run:
        found = _run(made, lowered, alone, getattr(torch, dtype))
    return {**found, **dict.fromkeys(missing)}


def _missing(made: Group, lowered: Lowered) -> dict[str, str]:
    """Samples of which no op is in a delegate, and why."""
    taken, plan = lowered.plan.delegation_of(), lowered.plan
    reasons = {row.op: str(row.reason) for row in plan.refusals}
    reasons |= {row.op: str(row.reason) for row in plan.losses}
    found = {}
    for name, ops in zip(made.names, made.parts(lowered.graph), strict=True):
        if not any(op.id in taken for op in ops):
            why = [reasons[op.id] for op in ops if op.id in reasons]
            found[name] = why[0] if why else Code.NO_ANSWER.value
    return found


def _run(
    made: Group, lowered: Lowered, config: Config, dtype: torch.dtype
) -> dict[str, Ended | None]:
    alone = len(made.names) == 1
    try:
        program = load(lowered.pte, Host.load(config).backends)
        found = dict.fromkeys(made.names, 0.0)
        wrong: dict[str, str] = {}
        for size in SIZES if any(map(any, made.symbolic)) else SIZES[:1]:
            given = made.inputs(dtype, size)
            wanted = _eager(made, given, dtype)
            got = program.run([value.clone() for row in given for value in row])
            results = iter(got[len(got) - sum(made.counts) :])  # what an op writes comes first
            for name, values in zip(made.names, wanted, strict=True):
                mine = [next(results) for _ in values]
                worst, fault = _compare(mine, values, config.check)
                found[name] = max(found[name], worst)
                if fault:
                    wrong.setdefault(name, f"{fault}, with {size} rows")
    except (LoweringError, RuntimeError) as error:
        if not alone:
            raise CedeError(first_line(error)) from error
        return {made.names[0]: (Outcome.NOT_RUN, first_line(error))}
    if wrong and not alone:
        return {
            name: None if name in wrong else (Outcome.RIGHT, f"{worst:.2g}")
            for name, worst in found.items()
        }
    return {
        name: (Outcome.WRONG, wrong[name]) if name in wrong else (Outcome.RIGHT, f"{worst:.2g}")
        for name, worst in found.items()
    }


def _eager(
    made: Group, given: list[list[torch.Tensor]], dtype: torch.dtype
) -> list[list[torch.Tensor]]:
    copies = [[value.clone() for value in row] for row in given]  # an op may write its inputs
    with torch.no_grad():
        results: list[list[torch.Tensor]] = Joint(made.names, dtype)(copies)
    return results


def _compare(
    got: Sequence[torch.Tensor], wanted: Sequence[torch.Tensor], check: CheckConfig
) -> tuple[float, str]:
    """The largest difference, and what is out of tolerance, "" for nothing."""
    worst = 0.0
    for i, (mine, other) in enumerate(zip(got, wanted, strict=True)):
        if mine.shape != other.shape or mine.dtype != other.dtype:
            return float("inf"), (
                f"output {i} is {mine.dtype}{list(mine.shape)} instead of"
                f" {other.dtype}{list(other.shape)}"
            )
        if not other.numel():
            continue
        distance = torch.nan_to_num((mine.double() - other.double()).abs(), nan=0.0, posinf=0.0)
        worst = max(worst, distance.max().item())
        rounding = HALF.get(other.dtype, 0.0)
        # relative to the largest output
        scale = max(1.0, torch.nan_to_num(other.double(), posinf=0, neginf=0).abs().max().item())
        exact = not other.is_floating_point()
        try:
            torch.testing.assert_close(
                mine, other, equal_nan=True,
                atol=0 if exact else max(check.atol, rounding * scale),
                rtol=0 if exact else max(check.rtol, rounding),
            )  # fmt: skip
        except AssertionError:
            return worst, f"output {i}: {_spelled(mine, other)}"
    return worst, ""


def _spelled(mine: torch.Tensor, other: torch.Tensor) -> str:
    different = (mine != other) & ~(mine.isnan() & other.isnan())
    distance = (mine.double() - other.double()).abs().nan_to_num(nan=1e300, posinf=1e300)
    worst = int(distance.masked_fill(~different, -1.0).argmax())
    place = [int(i) for i in torch.unravel_index(torch.tensor(worst), other.shape)]
    return (
        f"{int(different.sum())} of {other.numel()} elements differ, "
        f"{mine.flatten()[worst].item():.6g} instead of {other.flatten()[worst].item():.6g} "
        f"at {place}"
    )
