"""Fit plain values to a dataclass with OmegaConf; collect every problem, not only the first."""

from __future__ import annotations

import math
import types
from collections.abc import Mapping
from dataclasses import MISSING, dataclass, field, fields, is_dataclass
from typing import TYPE_CHECKING, Any, Union, get_args, get_origin, get_type_hints

from cede.nearest import suggestion

if TYPE_CHECKING:
    from collections.abc import Callable

_WORDS = {
    bool: "true or false",
    int: "a whole number",
    float: "a number",
    str: "a text",
    type(None): "null",
    Any: "anything",
}


@dataclass(kw_only=True)
class Problems:
    """Problems found so far, one line each, with where each value came from."""

    origin: Callable[[str], str]
    lines: list[str] = field(default_factory=list)

    def add(self, path: str, message: str, origin: str | None = None) -> None:
        """Note one problem with the value at a dotted path."""
        line = f"{origin or self.origin(path)}: {path}: {message}"
        if line not in self.lines:
            self.lines.append(line)


def fit(kind: type, values: Mapping[Any, Any], path: str, problems: Problems) -> Any:
    """An instance of the dataclass with these values, converted as OmegaConf does ("5" -> 5).

    Args:
        kind: a dataclass that OmegaConf can structure.
        values: plain Python values, nothing left to resolve.
        path: dotted path of `values` in the config, "" at the root.
        problems: unknown keys, wrong types and numbers out of bounds are added here.

    Returns:
        The instance, or None if a field without default has no value. It is only of use when no
        problem was added.
    """
    from omegaconf import OmegaConf

    node = OmegaConf.structured(kind)
    OmegaConf.set_readonly(node, False)  # that of a frozen dataclass is
    hints = get_type_hints(kind)
    known = {f.name: f for f in fields(kind) if f.metadata.get("key", True)}
    made: dict[str, Any] = {}
    for key, value in values.items():
        at = f"{path}.{key}" if path else str(key)
        if key not in known:
            near = suggestion(str(key), known, prefix=f"{path}." if path else "")
            problems.add(at, f"unknown key; {near}")
            continue
        hint = hints[key]
        if value is None and _is_section(hint):
            continue
        if (inner := _dataclass_of(hint)) is not None and isinstance(value, Mapping):
            made[key] = fit(inner, value, at, problems)
        elif (inner := _dataclass_of(_dict_value(hint))) and isinstance(value, Mapping):
            made[key] = _fit_each(inner, value, at, problems)
        elif (inner := _dataclass_of(_list_value(hint))) and isinstance(value, list):
            made[key] = _fit_list(inner, value, at, known[key].metadata, problems)
        elif _assign(node, key, value, hint, at, problems):
            plain = _plain(node[key], hint)
            if _check(plain, known[key].metadata, at, problems):
                made[key] = plain
    return _make(kind, made, values, path, problems)


def _assign(node: Any, key: str, value: Any, hint: Any, at: str, problems: Problems) -> bool:
    """Let OmegaConf convert and keep the value; False where it can't."""
    from omegaconf.errors import OmegaConfBaseException

    if value == "???":
        problems.add(at, f"has no value yet (???); give {_expected(hint)}")
        return False
    try:
        node[key] = value
    except OmegaConfBaseException:
        problems.add(at, f"got {_given(value)}, expected {_expected(hint)}")
        return False
    return True


def _fit_each(inner: type, values: Mapping[Any, Any], at: str, problems: Problems) -> Any:
    made = {}
    for name, value in values.items():
        if isinstance(value, Mapping):
            made[str(name)] = fit(inner, value, f"{at}.{name}", problems)
        elif value is None:
            made[str(name)] = inner()
        else:
            problems.add(f"{at}.{name}", f"got {_given(value)}, expected keys with values")
    return made


def _fit_list(
    inner: type, values: list[Any], at: str, rules: Mapping[str, Any], problems: Problems
) -> Any:
    check: Callable[[Any], str] = rules.get("each", _no_problem)
    made = []
    for i, value in enumerate(values):
        here, before = f"{at}[{i}]", len(problems.lines)
        if isinstance(value, str) and (read := getattr(inner, "read", None)) is not None:
            try:
                value = read(value)
            except ValueError as error:
                problems.add(here, str(error))
                continue
        if not isinstance(value, Mapping):
            problems.add(here, f"got {_given(value)}, expected {_expected(inner)}")
            continue
        one = fit(inner, value, here, problems)
        if len(problems.lines) == before:
            if wrong := check(one):
                problems.add(here, wrong)
            made.append(one)
    return made


def _no_problem(value: Any) -> str:
    return ""


def _make(
    kind: type, made: dict[str, Any], given: Mapping[Any, Any], path: str, problems: Problems
) -> Any:
    lacking = [
        f.name
        for f in fields(kind)
        if f.name not in made and f.default is MISSING and f.default_factory is MISSING
    ]
    hints = get_type_hints(kind)
    for name in lacking:
        if name in given:  # and was told already
            continue
        at = f"{path}.{name}" if path else name
        problems.add(at, f"is missing; give {_expected(hints[name])}")
    return None if lacking else kind(**made)


def _plain(value: Any, hint: Any) -> Any:
    from omegaconf import OmegaConf

    if OmegaConf.is_config(value):
        value = OmegaConf.to_object(value)
    wants_tuple = any(get_origin(h) is tuple for h in (hint, *get_args(hint)))
    return tuple(value) if wants_tuple and isinstance(value, list) else value


def _check(value: Any, rules: Mapping[str, Any], at: str, problems: Problems) -> bool:
    before = len(problems.lines)
    if wrong := rules.get("check", _no_problem)(value):
        problems.add(at, wrong)
    if rules and isinstance(value, (int, float)):
        least, above, most = (rules.get(key) for key in ("least", "above", "most"))
        if not math.isfinite(value):
            problems.add(at, f"is {value:g}, must be a finite number")
        elif least is not None and value < least:
            problems.add(at, f"is {value:g}, must not be below {least}")
        elif above is not None and value <= above:
            problems.add(at, f"is {value:g}, must be above {above}")
        elif most is not None and value > most:
            problems.add(at, f"is {value:g}, must be at most {most:g}")
    return len(problems.lines) == before


def _dataclass_of(hint: Any) -> type | None:
    for option in (hint, *get_args(hint)) if _is_union(hint) else (hint,):
        if isinstance(option, type) and is_dataclass(option):
            return option
    return None


def _dict_value(hint: Any) -> Any:
    return get_args(hint)[1] if get_origin(hint) is dict else None


def _is_section(hint: Any) -> bool:
    sections = _dataclass_of(hint), _dataclass_of(_list_value(hint))
    return any(sections) or get_origin(hint) is dict


def _list_value(hint: Any) -> Any:
    return get_args(hint)[0] if get_origin(hint) is list else None


def _is_union(hint: Any) -> bool:
    return get_origin(hint) in (Union, types.UnionType)


def _given(value: Any) -> str:
    if value is None:
        return "null"
    shown = repr(value)
    shown = shown if len(shown) <= 60 else shown[:57] + "..."
    return f"{shown} ({type(value).__name__})"


def _expected(hint: Any) -> str:
    if _is_union(hint):
        return " or ".join(_expected(option) for option in get_args(hint))
    if get_origin(hint) in (list, tuple):
        return f"a list, each {_expected(get_args(hint)[0])}"
    if get_origin(hint) is dict:
        return f"keys, each with {_expected(get_args(hint)[1])}"
    if isinstance(hint, type) and is_dataclass(hint):
        return "keys with values: " + ", ".join(f.name for f in fields(hint))
    if isinstance(hint, type) and hasattr(hint, "__members__"):
        return "one of " + ", ".join(hint.__members__)
    return _WORDS.get(hint, getattr(hint, "__name__", str(hint)))
