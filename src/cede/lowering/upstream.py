"""Errors from inside ExecuTorch, told with the op that they are about."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from cede.errors import LoweringError

if TYPE_CHECKING:
    from cede.types import OpGraph

_NODE = re.compile(r"%(\w+)|[Nn]ode (\w+)")
_SOURCE = re.compile(r'File "([^"]+)", line (\d+), in forward')


def upstream_error(stage: str, error: Exception, graph: OpGraph | None) -> LoweringError:
    """An error of ours for one of ExecuTorch's.

    Args:
        stage: what was being done ("lower the program").
        error: what came out; its first sentences are kept.
        graph: the facts, to name the op; None if there are none yet.
    """
    text = str(error).strip()
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    head = " ".join(lines[:3])[:600] if lines else "(no message)"
    where = _op(text, graph) or _line(text)
    about = f"; it is about {where}" if where else ""
    return LoweringError(
        f"ExecuTorch could not {stage}: {type(error).__name__}: {head}{about}."
        " Give the op to a backend that takes it, or replace it in the model."
    )


def _op(text: str, graph: OpGraph | None) -> str:
    if graph is None:
        return ""
    at = text.find("While executing")
    for match in _NODE.finditer(text[at:] if at >= 0 else text):
        name = match.group(1) or match.group(2)
        if name in graph:
            return graph.op(name).where
    return ""


def _line(text: str) -> str:
    found = _SOURCE.findall(text)
    return f"the op at {found[-1][0].rpartition('/')[2]}:{found[-1][1]}" if found else ""
