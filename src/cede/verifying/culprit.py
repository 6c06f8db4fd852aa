"""From a wrong program to the delegate and the op that make it so."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from typing import TYPE_CHECKING

from cede.checking import Walker, first_to_differ, flat
from cede.errors import CedeError, ConfigError
from cede.lowering.failing import shortest

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    from cede.checking import Call
    from cede.config import Config
    from cede.lowering import Lowered
    from cede.types import Delegation, Op


@dataclass(frozen=True, slots=True, kw_only=True)
class Culprit:
    """What makes a program wrong.

    Attributes:
        delegate: id of the first delegate that differs from eager on eager's values.
        backend: that computes it.
        op: the first op whose value it gets wrong.
        alone: whether a delegate of that op alone is wrong too; None where it can't be compiled.
        fault: the difference that the op shows.
        tried: how many delegates were compiled for it.
        failed: how many of them could not be compiled or run, and told nothing.
    """

    delegate: str
    backend: str
    op: Op
    alone: bool | None
    fault: str
    tried: int
    failed: int = 0

    @property
    def message(self) -> str:
        """Two sentences: who, and what to do."""
        together = {True: ", alone as well", False: ", only together with ops before it"}
        unsure = f" ({self.failed} of {self.tried} trials could not be compiled)"
        how = together[self.alone] if self.alone is not None else ""
        return (
            f"delegate {self.delegate} of {self.backend} goes wrong at {self.op.where}{how}:"
            f" {self.fault}{unsure if self.failed else ''}. Leave the op out with"
            f" policy.exclude=[{{name: {self.op.id}}}], and report it to the backend's authors."
        )


def bisect(
    lowered: Lowered, calls: Sequence[Call], config: Config | Path | str | None
) -> Culprit | None:
    """As `cede.bisect`: ever shorter beginnings of the delegate are compiled.

    A beginning in topological order of a convex set of ops is convex, so each is a delegate that
    the backend might have been given. The smallest that differs from eager ends in the culprit.
    """
    from cede.config import check_options, load_config
    from cede.host import Host
    from cede.lowering import lower_edge

    if not calls:
        raise ConfigError("bisect: give the inputs of at least one call")
    loaded = load_config(config)
    host = Host.load(loaded)
    first = first_to_differ(lowered, calls, host.backends, loaded.check)
    if first is None:
        return None
    own = [source.name for source in lowered.plan.backends]
    loaded = dataclasses.replace(loaded, backends=own, partitioners=[])
    options = check_options(loaded, host.backends, host.backend)
    inputs = [flat(call, lowered.source) for call in calls]

    def fault(ops: Sequence[str]) -> str | None:
        """What a delegate of these ops shows; None where it can't be made or run."""
        plan = lowered.plan.cut(first.given.id, set(ops))
        try:
            edge, _ = lower_edge(lowered.source, host, loaded, options, plan)
            walker = Walker(
                edge.exported_program(plan.method), plan, host.backends, loaded.check,
                only=first.given.id,
            )  # fmt: skip
            seen = [each for given in inputs for each in walker.call(given)]
        except CedeError:
            return None
        return next((s.difference.fault for s in seen if s.difference.fault), "")

    return _narrowed(lowered, first.given, first.difference.fault, fault)


def _narrowed(
    lowered: Lowered, given: Delegation, shown: str, fault: Callable[[Sequence[str]], str | None]
) -> Culprit:
    ops = sorted(given.ops, key=lowered.graph.position)
    seen: dict[int, str | None] = {}

    def shows(size: int) -> bool | None:
        found = seen[size] = fault(ops[:size])
        return None if found is None else bool(found)

    wrong = shortest(len(ops), shows)
    trials = list(seen.values())
    alone: bool | None = True
    if wrong > 1:
        trials.append(fault([ops[wrong - 1]]))
        alone = None if trials[-1] is None else bool(trials[-1])
    return Culprit(
        delegate=given.id, backend=given.backend, op=lowered.graph.op(ops[wrong - 1]), alone=alone,
        fault=seen.get(wrong) or shown, tried=len(trials), failed=trials.count(None),
    )  # fmt: skip
