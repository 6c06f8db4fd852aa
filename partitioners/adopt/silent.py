"""Why a check returned False without a word: the condition in front of that return."""

from __future__ import annotations

import ast
import sys
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import FrameType


def where_declined(check: Callable[[], object]) -> str:
    """Run a check again under a tracer and give the condition that made it decline.

    The innermost function that returned False (or a tuple that starts with False) is taken for the
    one that decided. "" if no Python function did.

    Example: "MaxPool2dConfig.check_constraints (generic_node_configs.py:210): if is_ceil_mode".
    """
    found: list[tuple[str, str, int]] = []

    def trace(frame: FrameType, event: str, argument: Any) -> Any:
        if event == "return" and not found and _declines(argument):
            owner = frame.f_locals.get("self")
            name = frame.f_code.co_name
            label = f"{type(owner).__name__}.{name}" if owner is not None else name
            found.append((label, frame.f_code.co_filename, frame.f_lineno))
        return trace

    outer = sys.gettrace()
    sys.settrace(trace)
    try:
        check()
    finally:
        sys.settrace(outer)
    if not found:
        return ""
    label, file, line = found[0]
    condition = _condition(file, line)
    place = f"{label} ({Path(file).name}:{line})"
    return f"{place}: {condition}" if condition else place


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
