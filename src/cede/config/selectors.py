"""The form of a selector: which ops a rule is about."""

from __future__ import annotations

import re
from dataclasses import dataclass, field, fields

from cede.nearest import suggestion


def _is_regex(pattern: str) -> str:
    """What is wrong with a regular expression, "" if nothing."""
    try:
        re.compile(pattern)
    except re.error as error:
        return f"is no regular expression: {error}"
    return ""


@dataclass(kw_only=True)
class SelectorConfig:
    """Which ops; every field that is given must match. Globs are those of `fnmatch`.

    Attributes:
        op: glob over the operator, with or without overload ("aten.linear*", "aten.add").
        name: glob over the op's id.
        regex: regular expression, found anywhere in the id.
        module: glob over the module path, name by name; "**" is any number of names. What matches
            a module matches all inside it.
        layer: as `module`, over the `cede.layer` path.
        dtype: glob over the dtypes of its results; one of them must match.
        backend: the backend for which the rule holds, exactly.
    """

    op: str = ""
    name: str = ""
    regex: str = field(default="", metadata={"check": _is_regex})
    module: str = ""
    layer: str = ""
    dtype: str = ""
    backend: str = ""

    @staticmethod
    def read(text: str) -> dict[str, str]:
        """The fields of the short form: "op:aten.linear*,module:encoder"; the comma means and.

        Raises:
            ValueError: a part without a field, an unknown one, or one that comes twice.
        """
        known = [f.name for f in fields(SelectorConfig)]
        found: dict[str, str] = {}
        for part in text.split(","):
            key, colon, pattern = (word.strip() for word in part.partition(":"))
            if not colon or not pattern:
                raise ValueError(
                    f"{part.strip()!r} is no field:pattern, such as op:aten.linear*"
                    " (a pattern with a comma needs the long form)"
                )
            if key not in known:
                raise ValueError(f"unknown field {key}; {suggestion(key, known)}")
            if key in found:
                raise ValueError(f"the field {key} comes twice")
            found[key] = pattern
        return found

    def __str__(self) -> str:
        given = ((f.name, getattr(self, f.name)) for f in fields(self))
        return ",".join(f"{name}:{pattern}" for name, pattern in given if pattern)


def selects(selector: SelectorConfig) -> str:
    """What is wrong with a selector as such, "" if nothing."""
    names = [f.name for f in fields(selector) if f.name != "backend"]
    if any(getattr(selector, name) for name in names):
        return ""
    return f"selects no op; give {', '.join(names[:-1])} or {names[-1]}"


def selects_for_backend(selector: SelectorConfig) -> str:
    """As `selects`, where a backend must be named."""
    if not selector.backend:
        return "names no backend; add backend"
    return selects(selector)


def selects_for_all(selector: SelectorConfig) -> str:
    """As `selects`, where no backend can be named."""
    if selector.backend:
        return "has a backend, and this rule is about ops that no backend has; leave it out"
    return selects(selector)
