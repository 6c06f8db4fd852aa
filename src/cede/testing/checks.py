"""What a plugin's answers must be. Each check gives the faults it found, each a sentence."""

from __future__ import annotations

from dataclasses import fields, is_dataclass
from typing import TYPE_CHECKING, Any

from cede.types import Availability, Claim, Code, Keep, Reason, Refusal

if TYPE_CHECKING:
    from collections.abc import Callable

    from cede.lowering import Lowered
    from cede.testing.asking import Asked
    from cede.types import Backend, Loss

SHOWN = 5


def records(asked: Asked) -> list[str]:
    """Every answer is a claim or refusal of the partitioner itself, for its own backend."""
    mine = asked.partitioner
    found = []
    for answer in asked.answers:
        if not isinstance(answer, Claim | Refusal):
            found.append(f"an answer is a {type(answer).__name__}, not a Claim or Refusal")
        elif answer.partitioner != mine.name:
            found.append(f"{_shown(answer)} says partitioner {answer.partitioner!r}")
        elif isinstance(answer, Claim) and answer.backend != mine.backend:
            found.append(f"{_shown(answer)} says backend {answer.backend!r}")
        elif isinstance(answer, Claim) and not isinstance(answer.ops, frozenset):
            found.append(f"{_shown(answer)} has a {type(answer.ops).__name__}, not a frozenset")
    return found


def existing_ops(asked: Asked) -> list[str]:
    """Answers name ops of the graph, and no claim is empty."""
    found = []
    for answer in _answers(asked):
        if isinstance(answer, Claim) and not answer.ops:
            found.append("a claim names no op at all")
        unknown = sorted(str(op) for op in _ops(answer) if op not in asked.graph)
        if unknown:
            found.append(f"{_shown(answer)} names ops that don't exist: {_few(unknown)}")
    return found


def every_op_answered(asked: Asked) -> list[str]:
    """Each op stands in a claim or in a refusal."""
    answered = {op for answer in _answers(asked) for op in _ops(answer)}
    missing = [op.where for op in asked.graph.ops if op.id not in answered]
    return [f"{len(missing)} ops got no answer: {_few(missing)}"] if missing else []


def convex(asked: Asked) -> list[str]:
    """No path leaves a claim and comes back to it; one that may be divided needn't be convex."""
    found = []
    for answer in _answers(asked):
        if not isinstance(answer, Claim) or answer.divisible:
            continue
        path = asked.graph.path_outside(op for op in answer.ops if op in asked.graph)
        if path:
            found.append(f"{_shown(answer)} isn't convex: {' -> '.join(path)} leaves it")
    return found


def reasons(asked: Asked) -> list[str]:
    """Each refusal has a code of `cede.Code` and a sentence."""
    found = []
    for answer in _answers(asked):
        if not isinstance(answer, Refusal):
            continue
        if not isinstance(answer.reason, Reason):
            found.append(f"{_shown(answer)} has {answer.reason!r} for a Reason")
        elif not isinstance(answer.reason.code, Code):
            found.append(f"{_shown(answer)} has the unknown code {answer.reason.code!r}")
        elif not str(answer.reason.detail).strip():
            found.append(f"{_shown(answer)} has the code {answer.reason.code.value} and no words")
    return found


def same_twice(asked: Asked) -> list[str]:
    """The same program gets the same answers, in any order."""
    return differences(spelled(asked.answers), spelled(asked.again), "the second time")


def differences(first: list[str], second: list[str], when: str) -> list[str]:
    """What is in one list of answers and not in the other."""
    if first == second:
        return []
    gone = sorted({*first} - {*second})
    new = sorted({*second} - {*first})
    if not gone and not new:
        return [f"{len(first)} answers became {len(second)} {when}"]
    found = [f"{when} it doesn't answer {_few(gone)}"] if gone else []
    return [*found, f"{when} it answers {_few(new)}"] if new else found


def spelled(answers: list[Claim | Refusal]) -> list[str]:
    """Answers as sorted text that doesn't depend on the order of a set."""
    return sorted(_spelled(answer) for answer in answers)


def kept(asked: Asked) -> list[str]:
    """`keeps` gives a `Keep` of operator overloads that neither mutate nor alias."""
    keep: Any = asked.keep
    if not isinstance(keep, Keep):
        return [f"keeps() gives a {type(keep).__name__}, not a Keep"]
    found = []
    for op in keep.ops:
        schema = getattr(op, "_schema", None)
        if schema is None:
            found.append(f"keeps() wants {op!r}, which is no operator overload")
        elif schema.is_mutable or any(given.alias_info is not None for given in schema.returns):
            found.append(f"keeps() wants {op}, which mutates or aliases: it can't stay whole")
    if keep.accepts is not None and not callable(keep.accepts):
        found.append("keeps() gives an `accepts` that can't be called")
    return found


def availability(available: Callable[[], Any]) -> list[str]:
    """`available` gives an `Availability` whose fields are None or words, twice the same."""
    try:
        first, second = available(), available()
    except Exception as error:
        return [f"available() raised {type(error).__name__}: {error}"]
    if not isinstance(first, Availability):
        return [f"available() gives a {type(first).__name__}, not an Availability"]
    found = []
    for name in ("claim", "lower", "run"):
        why = getattr(first, name)
        if why is not None and (not isinstance(why, str) or len(why.split()) < 2):
            found.append(f"available() says {why!r} for {name}: say why not and what to install")
    if first != second:
        found.append(f"available() says {first} and then {second}")
    return found


def specs(backend: Backend, options: Any) -> list[str]:
    """The options are a dataclass whose instance `compile_specs` turns into (str, bytes) pairs."""
    if not is_dataclass(backend.options):
        return [f"options is {backend.options!r}, no dataclass"]
    found = []
    for each in fields(backend.options):
        if not hasattr(options, each.name):
            found.append(f"the option {each.name} is missing from {options!r}")
    try:
        first, second = (tuple(backend.compile_specs(options)) for _ in range(2))
    except Exception as error:
        return [*found, f"compile_specs({options!r}) raised {type(error).__name__}: {error}"]
    for spec in first:
        if not (
            isinstance(spec, tuple)
            and len(spec) == 2
            and isinstance(spec[0], str)
            and isinstance(spec[1], bytes)
        ):
            found.append(f"compile_specs gives {spec!r}, not a pair of str and bytes")
    if first != second:
        found.append(f"compile_specs gives {first} and then {second}")
    return found


def delegates(lowered: Lowered, backend: Backend) -> list[str]:
    """The program has a delegate for each delegation, and nothing failed to compile."""
    from cede.running.pte import delegates_of

    wanted = len(lowered.plan.delegations)
    ids = [id for _, id, _ in delegates_of(lowered.buffer)]
    found = []
    own = ids if backend.delegate_for is not None else [backend.delegate_id] * wanted
    if len(ids) != wanted or ids != own:
        found.append(f"{wanted} delegations of {backend.delegate_id} became the delegates {ids}")
    rows: list[Refusal | Loss] = [*lowered.plan.refusals, *lowered.plan.losses]
    for row in rows:
        if row.reason.code is Code.COMPILE_FAILED:
            found.append(f"{row.op}: {row.reason}")
    return found


def _answers(asked: Asked) -> list[Claim | Refusal]:
    return [answer for answer in asked.answers if isinstance(answer, Claim | Refusal)]


def _ops(answer: Claim | Refusal) -> tuple[str, ...]:
    return tuple(answer.ops) if isinstance(answer, Claim) else (answer.op,)


def _spelled(answer: Claim | Refusal) -> str:
    if isinstance(answer, Refusal):
        return f"refusal of {answer.op} ({answer.reason!r})"
    if isinstance(answer, Claim):
        rest = (answer.note, answer.cost, answer.divisible, answer.specs, answer.marks)
        return f"claim of {', '.join(sorted(map(str, answer.ops)))} {rest}"
    return repr(answer)


def _shown(answer: Claim | Refusal) -> str:
    if isinstance(answer, Refusal):
        return f"the refusal of {answer.op}"
    return f"the claim of {_few(sorted(map(str, answer.ops)))}"


def _few(names: list[str]) -> str:
    more = f" and {len(names) - SHOWN} more" if len(names) > SHOWN else ""
    return ", ".join(names[:SHOWN]) + more
