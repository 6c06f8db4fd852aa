"""The costs of one plan: from the config's profile or the defaults, from backends and claims."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import TYPE_CHECKING

from cede.config import ROOFLINE
from cede.costs import UNKNOWN, default_costs, load_profile
from cede.errors import PluginError
from cede.host.guard import Trouble, guarded
from cede.types import Rates

if TYPE_CHECKING:
    from collections.abc import Sequence

    from cede.claim import Answers
    from cede.config import Config
    from cede.costs import Profile
    from cede.host import Host
    from cede.types import Backend, Costs, OpGraph

Given = dict[tuple[str, str], float]
"""Seconds by (backend, op id)."""


def costs_for(
    graph: OpGraph, answers: Sequence[Answers], backends: Sequence[str], host: Host, config: Config
) -> tuple[Costs | None, tuple[str, ...]]:
    """Costs, None where the config asks for none, and warnings.

    Rates come from the profile that the config names, where that lacks a backend from the backend
    itself, and last from those of a backend that nobody knows. A claim's own seconds, spread over
    its ops, go before all; those that a backend tells op by op before its rates, not before a
    profile.

    Raises:
        ConfigError: a profile that can't be used.
        PluginError: a backend's rates can't be had, or a claim's or backend's seconds are none.
    """
    if config.settle != "cost" and not config.costs:
        return None, ()
    named = config.costs not in ("", ROOFLINE)
    profile = load_profile(config.costs) if named else None
    costs, warnings = _rates(backends, host, config, profile)
    given: Given = {}
    for answer in answers:
        _add_claims(given, answer, graph)
    for name in backends:
        record = host.backend(name)
        if record.cost is not None and (profile is None or name not in profile.backends):
            trouble = _add_own(given, record, graph, config.seconds)
            if trouble is not None:
                source = host.source("backend", name)
                who = f"{name} ({source.distribution} {source.version})"
                warnings.append(f"costs: backend {who} failed to tell its own: {trouble.reason}")
    return replace(costs, given=given), tuple(warnings)


def _rates(
    backends: Sequence[str], host: Host, config: Config, profile: Profile | None
) -> tuple[Costs, list[str]]:
    rates: dict[str, Rates | None] = {}
    warnings = []
    for name in backends:
        rates[name] = None
        if profile is not None and name in profile.backends:
            continue
        record = host.backend(name)
        if record.rates is not None:
            rates[name] = _called(name, record, host, config.seconds)
        elif record.cost is None:
            warnings.append(
                f"costs: backend {name} tells no rates, so those of an {UNKNOWN} one are taken;"
                " name a profile that has it (costs: FILE)"
            )
    costs = default_costs(rates)
    return (costs if profile is None else profile.over(costs, config.costs)), warnings


def _called(name: str, record: Backend, host: Host, seconds: float) -> Rates:
    assert record.rates is not None  # noqa: S101  (asked before)
    found = guarded(record.rates, seconds, "seconds")
    if isinstance(found, Rates):
        return found
    source = host.source("backend", name)
    why = found.reason if isinstance(found, Trouble) else f"they are {type(found).__name__}"
    raise PluginError(
        f"backend {name} ({source.distribution} {source.version}): its rates can't be had: {why}"
    )


def _add_claims(given: Given, answer: Answers, graph: OpGraph) -> None:
    for claim in answer.claims:
        if claim.cost is None:
            continue
        who = f"partitioner {claim.partitioner}: its claim's cost"
        real = [op for op in claim.ops if not graph.op(op).bookkeeping]
        each = _checked(claim.cost, who) / max(1, len(real))
        for op in real:
            given.setdefault((claim.backend, op), each)


def _add_own(given: Given, record: Backend, graph: OpGraph, seconds: float) -> Trouble | None:
    """Add what a backend tells op by op; what is wrong if it fails, and then nothing is added."""
    ask = record.cost
    assert ask is not None  # noqa: S101  (asked before)

    def all_of_them() -> dict[str, float]:
        told = ((op, ask(op)) for op in graph.ops)
        return {op.id: _checked(s, f"for {op.where}") for op, s in told if s is not None}

    found = guarded(all_of_them, seconds, "seconds")
    if isinstance(found, Trouble):
        return found
    for op, took in found.items():
        given.setdefault((record.name, op), took)
    return None


def _checked(value: object, what: str) -> float:
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        raise PluginError(f"{what}: seconds should be a number, not {value!r}")
    if not math.isfinite(value) or value < 0:
        raise PluginError(f"{what}: {value:g} s, should be at least 0 and finite")
    return float(value)
