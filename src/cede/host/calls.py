"""Calling the hooks that observe: each implementation on its own, none can abort."""

from __future__ import annotations

import sys
from functools import partial
from typing import TYPE_CHECKING, Any

from cede.host.guard import Trouble, guarded
from cede.types import Finding

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    import click

    from cede.host.load import Plugin
    from cede.planning import Plan
    from cede.types import OpGraph

SEVERITIES = ("note", "warning", "error")


def review(
    plugins: Sequence[Plugin], plan: Plan, graph: OpGraph, seconds: float
) -> tuple[Finding, ...]:
    """Findings of every plugin; a plugin that fails becomes a finding."""
    findings: list[Finding] = []
    for plugin, call in calls_of(plugins, "cede_review", {"plan": plan, "graph": graph}):
        trouble = guarded(partial(_extend, findings, call), seconds, "seconds")
        if isinstance(trouble, Trouble):
            findings.append(_failed(plugin, "cede_review", trouble))
    return tuple(findings)


def lowered(
    plugins: Sequence[Plugin], plan: Plan, program: Any, seconds: float
) -> tuple[Finding, ...]:
    """Show the lowered program to every plugin; a plugin that fails becomes a finding."""
    findings: list[Finding] = []
    for plugin, call in calls_of(plugins, "cede_lowered", {"plan": plan, "program": program}):
        trouble = guarded(call, seconds, "seconds")
        if isinstance(trouble, Trouble):
            findings.append(_failed(plugin, "cede_lowered", trouble))
    return tuple(findings)


def commands(plugins: Sequence[Plugin], cli: click.Group, seconds: float) -> None:
    """Let every plugin add commands; one that fails, or replaces a command, adds none."""
    for plugin, call in calls_of(plugins, "cede_commands", {"cli": cli}):
        before = dict(cli.commands)
        trouble = guarded(call, seconds, "plugins.seconds")
        reason = trouble.reason if isinstance(trouble, Trouble) else ""
        replaced = [name for name, one in before.items() if cli.commands.get(name) is not one]
        if replaced and not reason:
            reason = f"it replaces the command {', '.join(replaced)}"
        if reason:
            cli.commands.clear()
            cli.commands.update(before)
            print(f"warning: {plugin.loaded}: its commands are left out: {reason}", file=sys.stderr)


def calls_of(
    plugins: Sequence[Plugin], hook: str, values: dict[str, Any]
) -> Iterator[tuple[Plugin, Callable[[], Any]]]:
    """Every implementation of a hook with its plugin, ready to be called with these values."""
    for plugin in plugins:
        for implementation in plugin.implementations(hook):
            # a hook function may leave out parameters that it doesn't need
            given = [values[name] for name in implementation.argnames]
            yield plugin, partial(implementation.function, *given)


def _extend(findings: list[Finding], call: Callable[[], Any]) -> None:
    findings.extend(_checked(call()))


def _checked(given: Any) -> Iterable[Finding]:
    if given is None:
        return
    for finding in given:
        if not isinstance(finding, Finding):
            raise TypeError(f"it gave {type(finding).__name__}, not a Finding")
        if finding.severity not in SEVERITIES:
            raise ValueError(f"severity {finding.severity!r} is none of {', '.join(SEVERITIES)}")
        yield finding


def _failed(plugin: Plugin, hook: str, trouble: Trouble) -> Finding:
    return Finding(severity="warning", message=f"{plugin.loaded}: {hook} failed: {trouble.reason}")
