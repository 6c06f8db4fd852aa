"""Which ops a selector selects."""

from __future__ import annotations

import re
from fnmatch import fnmatchcase
from functools import partial
from typing import TYPE_CHECKING

from cede.config import SelectorConfig
from cede.nearest import suggestion

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from cede.types import Op, OpGraph


def chosen(selector: SelectorConfig, graph: OpGraph) -> tuple[str, ...]:
    """Ids of the ops that match every field but `backend`, in graph order.

    A getitem is chosen where its producer is: they always go together.
    """
    tests = [(read, _remembering(test)) for read, test in _tests(selector)]
    found: dict[str, None] = {}
    for op in graph.ops:
        host = op.inputs[0] if op.target == "getitem" and op.inputs else ""
        if host in graph:
            match = host in found
        else:
            match = all(any(map(test, read(op))) for read, test in tests)
        if match:
            found[op.id] = None
    return tuple(found)


def nearest(selector: SelectorConfig, graph: OpGraph) -> str:
    """The end of a sentence on a selector that matches no op: which field, and the nearest name."""
    for name in _FIELDS:
        pattern = getattr(selector, name)
        if not pattern or chosen(SelectorConfig(**{name: pattern}), graph):
            continue
        if name == "regex":
            return f"no id has {pattern!r} in it"
        known = {value for op in graph.ops for value in _names(name, op) if value}
        return f"no {name} is like {pattern!r}; {suggestion(pattern, known)}"
    return "each of its fields matches ops, and no op matches all of them"


def selects_module(
    selector: SelectorConfig, path: str, op: str, dtype: str, layer: str = ""
) -> bool:
    """Whether a module of a model matches every field.

    Args:
        selector: whose `name` and `regex` are about the module's path here.
        path: of the module.
        op: what it calls, such as "aten.linear".
        dtype: of its weight.
        layer: names of the `cede.layer` contexts around it, joined by dots.
    """
    values = {"op": op, "name": path, "regex": path, "module": path, "layer": layer, "dtype": dtype}
    given = [name for name in _FIELDS if getattr(selector, name)]
    tests = [test for _, test in _tests(selector)]
    return all(test(values[name]) for name, test in zip(given, tests, strict=True))


def _names(field: str, op: Op) -> Iterable[str]:
    """What a pattern of that field could have been, for suggestions."""
    if field == "op":
        return (name for name in op.operators if name.count(".") < 2)
    if field in ("module", "layer"):
        words = getattr(op, field).split(".")
        return (".".join(words[: i + 1]) for i in range(len(words)))
    return _FIELDS[field](op)


_FIELDS: dict[str, Callable[[Op], Iterable[str]]] = {
    "op": lambda op: op.operators,
    "name": lambda op: (op.id,),
    "regex": lambda op: (op.id,),
    "module": lambda op: (op.module,),
    "layer": lambda op: (op.layer,),
    "dtype": lambda op: (fact.dtype for fact in op.outputs),
}
"""What each field of a selector is compared with; one of these must match."""


def _tests(
    selector: SelectorConfig,
) -> Iterator[tuple[Callable[[Op], Iterable[str]], Callable[[str], bool]]]:
    for name, read in _FIELDS.items():
        pattern = getattr(selector, name)
        if not pattern:
            continue
        if name == "regex":
            yield read, partial(_has, re.compile(pattern))
        elif name in ("module", "layer"):
            yield read, partial(_under, tuple(pattern.split(".")))
        else:
            yield read, partial(_like, pattern)


def _remembering(test: Callable[[str], bool]) -> Callable[[str], bool]:
    known: dict[str, bool] = {}

    def remembered(value: str) -> bool:
        if value not in known:
            known[value] = test(value)
        return known[value]

    return remembered


def _like(pattern: str, value: str) -> bool:
    return fnmatchcase(value, pattern)


def _has(pattern: re.Pattern[str], value: str) -> bool:
    return pattern.search(value) is not None


def is_under(pattern: str, path: str) -> bool:
    """Whether a module path matches a selector's `module`, or is inside of what does."""
    return _under(tuple(pattern.split(".")), path)


def _under(pattern: tuple[str, ...], path: str) -> bool:
    """Whether a dotted path matches name by name, or is inside one that does."""

    def at(i: int, names: tuple[str, ...]) -> bool:
        if i == len(pattern):
            return True
        if pattern[i] == "**":
            return any(at(i + 1, names[j:]) for j in range(len(names) + 1))
        return bool(names) and fnmatchcase(names[0], pattern[i]) and at(i + 1, names[1:])

    return at(0, tuple(path.split(".")) if path else ())
