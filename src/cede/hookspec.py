"""Every hook that a plugin may implement. Hooks collect or observe; the records do the work.

A plugin is a module (or object) with functions marked by `cede.hookimpl`, named by an entry point
of the group `cede`, or a `.py` file named under `plugins` in a config:

    import cede

    @cede.hookimpl
    def cede_partitioners():
        yield MyPartitioner()
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pluggy

if TYPE_CHECKING:
    from collections.abc import Iterable

    import click

    from cede.planning import Plan
    from cede.types import Backend, Contest, Encoding, Finding, OpGraph, Partitioner, Settlement

PROJECT = "cede"

hookspec = pluggy.HookspecMarker(PROJECT)
hookimpl = pluggy.HookimplMarker(PROJECT)


@hookspec
def cede_partitioners() -> Iterable[Partitioner]:  # type: ignore[empty-body]
    """Partitioners that the plugin brings. Called once, when the host loads."""


@hookspec
def cede_backends() -> Iterable[Backend]:  # type: ignore[empty-body]
    """Backends that the plugin brings. Called once, when the host loads."""


@hookspec
def cede_quantizers() -> Iterable[Any]:  # type: ignore[empty-body]
    """Quantizers that the plugin brings: objects with a `name`. Called once at load."""


@hookspec
def cede_encodings() -> Iterable[Encoding]:  # type: ignore[empty-body]
    """Weight encodings that the plugin brings. Called once, when the host loads."""


@hookspec(firstresult=True)
def cede_settle(contest: Contest) -> Settlement | None:
    """Decide who gets which op. Called once per plan; the first answer that isn't None stands.

    cede's own settling comes last. Whatever is returned is checked: delegations must be disjoint
    and convex, and their quotient graph acyclic.
    """


@hookspec
def cede_review(plan: Plan, graph: OpGraph) -> Iterable[Finding]:  # type: ignore[empty-body]
    """Findings about a finished plan. Called before compiling; severity "error" stops it."""


@hookspec
def cede_lowered(plan: Plan, program: Any) -> None:
    """Look at the lowered `EdgeProgramManager`. Called once per lowering; nothing is returned."""


@hookspec
def cede_commands(cli: click.Group) -> None:
    """Add commands to the `cede` command line. Called once, before the command is looked up."""
