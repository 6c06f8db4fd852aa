"""The plan with other answers."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from typing import TYPE_CHECKING

from cede.config import SelectorConfig
from cede.costs import predicted
from cede.errors import ConfigError
from cede.nearest import suggestion
from cede.policy import chosen, nearest
from cede.reporting.totals import totals
from cede.types import Claim, Settlement
from cede.whatif.records import Comparison

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Sequence

    from cede.claim import Answers
    from cede.types import Delegation, OpGraph, Spec
    from cede.whatif.records import Asked


def what_if(
    asked: Asked, *, support: Sequence[tuple[str, str]] = (), without: Sequence[str] = ()
) -> Comparison:
    """What would change if backends supported operators, or if backends were not asked.

    To support an op, the refusal of the backend's first partitioner becomes a claim for that op
    alone (with its getitems, and with the branches of a control-flow op); then everything is
    settled again, under the same policy and limits. The program stays as it was decomposed for the
    plan, and whether the backend would compile such delegates is not known.

    Args:
        asked: the program with its answers.
        support: pairs of an operator, with or without overload ("*" matches any part), and the
            name of a backend that was asked.
        without: names of backends that were asked.

    Raises:
        ConfigError: a backend that was not asked, an operator that the program lacks or that the
            backend claims already, or nothing to change.
    """
    if not support and not without:
        raise ConfigError(
            "nothing to change: give an operator to support or a backend to do without"
        )
    answers = asked.answers
    for pattern, backend in support:
        _check_backend(asked, backend)
        if backend in without:
            raise ConfigError(
                f"{backend} can't support {pattern} and not be there; give one of both"
            )
        answers = supporting(asked, answers, _wanted(asked, pattern, backend), backend)
    for backend in without:
        _check_backend(asked, backend)
        answers = tuple(given for given in answers if asked.backends.get(_who(given)) != backend)
    return compared(asked, answers, _words(support, without))


def _words(support: Sequence[tuple[str, str]], without: Sequence[str]) -> str:
    words = []
    if support:
        words.append(f"supporting {', '.join(f'{op} on {backend}' for op, backend in support)}")
    if without:
        words.append(f"without {', '.join(without)}")
    return " ".join(words)


def compared(asked: Asked, answers: Sequence[Answers], change: str) -> Comparison:
    """Settle changed answers and compare with the plan."""
    graph = asked.graph
    after = asked.settle(answers)
    old, new = _taken(asked.plan.delegations), _taken(after)
    costs = asked.plan.costs
    then, now = (
        None if costs is None else predicted(graph, Settlement(delegations=given), costs).seconds
        for given in (asked.plan.delegations, after)
    )
    return Comparison(
        change=change,
        before=totals(graph, old, len(asked.plan.delegations)),
        after=totals(graph, new, len(after)),
        gained=tuple(op.id for op in graph.ops if op.id in new and op.id not in old),
        lost=tuple(op.id for op in graph.ops if op.id in old and op.id not in new),
        seconds_before=then,
        seconds_after=now,
    )


def refused_by(asked: Asked, backend: str) -> set[str]:
    """Ids of the ops that all partitioners of a backend refuse."""
    own = [given for given in asked.answers if asked.backends.get(_who(given)) == backend]
    claimed = {op for given in own for claim in given.claims for op in claim.ops}
    return {refusal.op for given in own for refusal in given.refusals} - claimed


def supporting(
    asked: Asked, answers: Sequence[Answers], ops: Collection[str], backend: str
) -> tuple[Answers, ...]:
    """The answers with a claim of the backend for each of these ops, which it refuses."""
    changed = list(answers)
    number = next(
        i for i, given in enumerate(changed) if asked.backends.get(_who(given)) == backend
    )
    given = changed[number]
    who, specs = _who(given), _usual_specs(given)
    claims = [
        Claim(
            partitioner=who, backend=backend, ops=frozenset(_together(asked.graph, op)),
            note="what if", specs=specs,
        )
        for op in ops
    ]  # fmt: skip
    now = {op for claim in claims for op in claim.ops}
    changed[number] = replace(
        given,
        claims=(*given.claims, *claims),
        refusals=tuple(refusal for refusal in given.refusals if refusal.op not in now),
    )
    return tuple(changed)


def _check_backend(asked: Asked, backend: str) -> None:
    known = set(asked.backends.values())
    if backend not in known:
        raise ConfigError(f"backend {backend} was not asked; {suggestion(backend, known)}")


def _wanted(asked: Asked, pattern: str, backend: str) -> list[str]:
    if not pattern:
        raise ConfigError(f"no operator to support on {backend}; give one, such as aten.add")
    graph, selector = asked.graph, SelectorConfig(op=pattern)
    found = [op for op in chosen(selector, graph) if graph.op(op).target != "getitem"]
    if not found:
        raise ConfigError(f"{pattern}: the program has no such op: {nearest(selector, graph)}")
    refused = refused_by(asked, backend)
    if not (wanted := [op for op in found if op in refused]):
        raise ConfigError(f"{pattern}: {backend} refuses none of these {len(found)} ops")
    return wanted


def _who(given: Answers) -> str:
    """Name of the partitioner that answered, "" where there was no op to answer about."""
    names = [claim.partitioner for claim in given.claims[:1]]
    names += [refusal.partitioner for refusal in given.refusals[:1]]
    return names[0] if names else ""


def _taken(delegations: Sequence[Delegation]) -> set[str]:
    return {op for given in delegations for op in given.ops}


def _usual_specs(given: Answers) -> tuple[Spec, ...]:
    """The compile specs that most of its claims have: with others a claim would stand apart."""
    counts = Counter(claim.specs for claim in given.claims)
    return counts.most_common(1)[0][0] if counts else ()


def _together(graph: OpGraph, id: str) -> Iterator[str]:
    """An op with what always goes with it: its getitems and its branches."""
    yield id
    for user in graph.users(id):
        if graph.op(user).target == "getitem":
            yield from _together(graph, user)
    for scope in graph.op(id).branches:
        for inner in graph.scope(scope):
            yield from _together(graph, inner.id)
