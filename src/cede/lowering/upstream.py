"""Errors from inside ExecuTorch, told with the op and the delegate that they are about."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from torch.export import ExportedProgram

from cede.errors import LoweringError
from cede.lacking import chain, lack

if TYPE_CHECKING:
    from collections.abc import Iterator
    from types import FrameType

    from cede.planning import Plan
    from cede.types import Delegation, OpGraph

_NODE = re.compile(r"%(\w+)|[Nn]ode '?(\w+)|\bFor (\w+),")
_SOURCE = re.compile(r'File "([^"]+)", line (\d+), in forward')


class CompileError(LoweringError):
    """A delegate that its backend could not compile.

    Attributes:
        plan: that it is part of.
        graph: the plan's.
        given: the delegate.
        op: id of the op that the compiler named, "" where it named none.
        why: the compiler's message.
    """

    def __init__(
        self, message: str, plan: Plan, graph: OpGraph, given: Delegation, op: str, why: str
    ) -> None:
        super().__init__(message)
        self.plan, self.graph, self.given, self.op, self.why = plan, graph, given, op, why


class CompilerFailed(Exception):
    """Compiling a delegate failed in a process of its own, or that process did.

    Attributes:
        program: what was compiled.
        text: all that the compiler said, of which the message is the beginning.
    """

    def __init__(self, message: str, program: ExportedProgram, text: str = "") -> None:
        super().__init__(message)
        self.program, self.text = program, text or message


def upstream_error(stage: str, error: Exception, plan: Plan | None) -> LoweringError:
    """An error of ours for one of ExecuTorch's.

    Args:
        stage: what was being done ("lower the program").
        error: what came out; its first sentences and those of its first cause are kept.
        plan: names the op and the delegate; None if there is none yet.
    """
    if lacking := lack(error):
        return LoweringError(f"could not {stage}: {lacking}")
    text = texts(error)
    graph = plan.graph if plan is not None else None
    named = _op(text, graph)
    where = graph.op(named).where if graph is not None and named else _line(text)
    about = f"; it is about {where}" if where else ""
    given = _delegate(error, plan)
    if given is None or plan is None or graph is None:
        return LoweringError(
            f"ExecuTorch could not {stage}: {heads(error)}{about}."
            " Give the op to a backend that takes it, or replace it in the model."
        )
    names = ", ".join(part.partitioner for part in given.parts)
    first = f", {len(given.ops)} ops from {graph.op(given.ops[0]).where}"
    message = (
        f"{given.backend} could not compile delegate {given.id} (claimed by {names}{first}):"
        f" {heads(error)}{about}. Leave the op out by policy.exclude, or give it to another"
        " backend."
    )
    return CompileError(message, plan, graph, given, named, heads(error))


def texts(error: BaseException) -> str:
    """All that an error and its causes say."""
    return "\n".join(
        each.text if isinstance(each, CompilerFailed) else str(each).strip()
        for each in chain(error)
    )


def heads(error: BaseException) -> str:
    """The first sentences of an error and of its first cause, in a line."""
    found = list(chain(error))
    causes = found[:1] if len(found) == 1 else [found[0], found[-1]]
    return "; because of ".join(
        str(each)
        if isinstance(each, CompilerFailed)
        else f"{type(each).__name__}: {_head(str(each))}"
        for each in causes
    )


def _head(text: str) -> str:
    lines = [line.strip() for line in text.strip().splitlines() if line.strip()]
    return " ".join(lines[:3])[:600].rstrip(".") if lines else "(no message)"


def _op(text: str, graph: OpGraph | None) -> str:
    """Id of the op that a text names, "" for none."""
    if graph is None:
        return ""
    at = text.find("While executing")
    for match in _NODE.finditer(text[at:] if at >= 0 else text):
        name: str = next(filter(None, match.groups()))
        if name in graph:
            return name
    return ""


def _line(text: str) -> str:
    found = _SOURCE.findall(text)
    return f"the op at {found[-1][0].rpartition('/')[2]}:{found[-1][1]}" if found else ""


def _delegate(error: Exception, plan: Plan | None) -> Delegation | None:
    """The delegation whose subprogram a backend's `preprocess` was given when it failed."""
    if plan is None:
        return None
    owner = plan.delegation_of()
    for each in chain(error):
        for program in _compiled(each):
            for node in program.graph.nodes:
                if node.name in owner:
                    return owner[node.name]
    return None


def _compiled(error: BaseException) -> Iterator[ExportedProgram]:
    """What was being compiled when an error came up."""
    if isinstance(error, CompilerFailed):
        yield error.program
    for frame in _frames(error):
        if frame.f_code.co_name == "preprocess":
            yield from (
                each for each in frame.f_locals.values() if isinstance(each, ExportedProgram)
            )


def _frames(error: BaseException) -> Iterator[FrameType]:
    trace = error.__traceback__
    while trace is not None:
        yield trace.tb_frame
        trace = trace.tb_next
