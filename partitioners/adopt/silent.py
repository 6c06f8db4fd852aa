"""Why a check returned False without a word: the condition in front of that return."""

from __future__ import annotations

import ast
import re
import sys
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import FrameType


@dataclass(slots=True)
class _Call:
    """One Python call under the tracer, and those of its own calls that declined."""

    label: str = ""
    name: str = ""
    file: str = ""
    line: int = 0
    declining: list[_Call] = field(default_factory=list)


def where_declined(check: Callable[[], object]) -> str:
    """Run a check again under a tracer and give the condition that made it decline.

    From the check inwards: where a function declined because one that it called did (`if not
    self.check(x): return False`, `return self.check(x)`), the inner one is looked at. "" if no
    Python function declined.

    Example: "MaxPool2dConfig.check_constraints (generic_node_configs.py:210): if is_ceil_mode".
    """
    top = _Call()
    _traced(check, top)
    if not top.declining:
        return ""
    call = top.declining[-1]
    while (inner := _blamed(call)) is not None:
        call = inner
    condition = _condition(call.file, call.line)
    place = f"{call.label} ({Path(call.file).name}:{call.line})"
    return f"{place}: {condition}" if condition else place


def _traced(check: Callable[[], object], top: _Call) -> None:
    running = [top]

    def trace(frame: FrameType, event: str, argument: Any) -> Any:
        if event == "call":
            running.append(_Call())
        elif event == "return" and len(running) > 1:
            call = running.pop()
            if _declines(argument):
                owner = frame.f_locals.get("self")
                call.name, call.file = frame.f_code.co_name, frame.f_code.co_filename
                call.line = frame.f_lineno
                call.label = (
                    f"{type(owner).__name__}.{call.name}" if owner is not None else call.name
                )
                running[-1].declining.append(call)
        return trace

    outer = sys.gettrace()
    sys.settrace(trace)
    try:
        check()
    finally:
        sys.settrace(outer)


def _blamed(call: _Call) -> _Call | None:
    """The inner call whose answer `call` passed on, None if it decided itself."""
    condition = _condition(call.file, call.line)
    if call.name == "<lambda>" or re.fullmatch(r"unless \w+", condition):
        return call.declining[-1] if call.declining else None
    if re.search(r"\b(and|or)\b", condition):
        return None  # the whole condition says more than one part of it
    for inner in reversed(call.declining):
        name = re.escape(inner.name)
        if re.fullmatch(rf"(if not|unless) [\w.]*(\(\)\.)?{name}\(.*\)", condition):
            return inner
    return None


def _declines(value: Any) -> bool:
    return value is False or (isinstance(value, tuple) and bool(value) and value[0] is False)


@lru_cache(maxsize=64)
def _tree(file: str) -> ast.Module | None:
    try:
        return ast.parse(Path(file).read_text(encoding="utf-8"))
    except (OSError, SyntaxError, ValueError):
        return None


@lru_cache(maxsize=512)
def _condition(file: str, line: int) -> str:
    tree = _tree(file)
    if tree is None:
        return ""
    best = ""
    for node in ast.walk(tree):
        if isinstance(node, ast.If):
            if _covers(node.body, line):
                best = f"if {ast.unparse(node.test)}"  # ast.walk goes outside in
            elif _covers(node.orelse, line) and not isinstance(node.orelse[0], ast.If):
                best = f"unless {ast.unparse(node.test)}"
        elif isinstance(node, ast.Return) and node.lineno <= line <= (node.end_lineno or line):
            if node.value is not None and not isinstance(node.value, (ast.Constant, ast.Tuple)):
                best = f"unless {ast.unparse(node.value)}"
    return " ".join(best.split())[:200]


def _covers(body: list[ast.stmt], line: int) -> bool:
    return bool(body) and body[0].lineno <= line <= (body[-1].end_lineno or body[-1].lineno)
