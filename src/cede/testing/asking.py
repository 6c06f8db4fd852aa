"""Asks a plugin's partitioners about one program and remembers everything that they did."""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, cast

from cede.facts import read_graph
from cede.timelimit import time_limit

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from torch.export import ExportedProgram

    from cede.config import Config
    from cede.host import Host
    from cede.types import Claim, Keep, OpGraph, Partitioner, Program, Refusal


@dataclass(slots=True, kw_only=True)
class Asked:
    """What one partitioner did when it was asked about one program.

    Attributes:
        partitioner: who was asked.
        graph: the facts it was given.
        keep: what `keeps` gave, None if it wasn't asked or raised.
        answers: what `claim` gave, unchecked; those before an error, too.
        again: what it gave when asked about the same program again.
        error: what `claim` or `keeps` raised, "" for nothing.
        seconds: what the first `claim` took.
        changes: what it changed in the program, each a sentence.
    """

    partitioner: Partitioner
    graph: OpGraph
    keep: Keep | None = None
    answers: list[Claim | Refusal] = field(default_factory=list)
    again: list[Claim | Refusal] = field(default_factory=list)
    error: str = ""
    seconds: float = 0.0
    changes: list[str] = field(default_factory=list)


class Watching:
    """A host whose partitioners are watched.

    Args:
        host: with the plugin.
        seconds: how long a partitioner may take to answer, where it can be interrupted.

    Attributes:
        asked: what each partitioner did, by name.
    """

    def __init__(self, host: Host, seconds: float) -> None:
        self._host = host
        self._seconds = seconds
        self.asked: dict[str, Asked] = {}

    def __getattr__(self, name: str) -> Any:
        return getattr(self._host, name)

    @property
    def host(self) -> Host:
        """Itself, for whoever wants a `Host`."""
        return cast("Host", self)

    def partitioners_for(self, config: Config) -> tuple[Partitioner, ...]:
        """Those of the host, each watched."""
        return tuple(
            _Watched(each, self.asked, self._seconds)
            for each in self._host.partitioners_for(config)
        )


class _Watched:
    def __init__(self, inner: Partitioner, into: dict[str, Asked], seconds: float) -> None:
        self._inner = inner
        self._into = into
        self._seconds = seconds
        self._keep: Keep | None = None
        self._keep_error = ""

    @property
    def name(self) -> str:
        return self._inner.name

    @property
    def backend(self) -> str:
        return self._inner.backend

    def keeps(self, program: Program) -> Keep:
        try:
            self._keep = self._inner.keeps(program)
        except Exception as error:
            self._keep_error = f"keeps() raised {type(error).__name__}: {error}"
            raise
        return self._keep

    def claim(self, program: Program) -> Iterable[Claim | Refusal]:
        found = Asked(partitioner=self._inner, graph=program.graph, keep=self._keep)
        # planning may go over a program again, with fewer ops kept whole: the last time counts
        self._into[self.name] = found
        before = _Snapshot(program.exported)
        begin = time.perf_counter()
        error = self._ask(program, found.answers)
        found.seconds = time.perf_counter() - begin
        found.changes = before.changes(program)
        if not error:
            before.restore()
            error = self._ask(program, found.again)
            error = f"asked again, {error}" if error else ""
        found.error = error or self._keep_error
        return found.answers

    def _ask(self, program: Program, into: list[Claim | Refusal]) -> str:
        try:
            with time_limit(self._seconds):
                into.extend(self._inner.claim(program))
        except KeyboardInterrupt:
            raise
        except TimeoutError:
            return f"claim() was stopped after {self._seconds:g} s"
        except Exception as error:
            return f"claim() raised {type(error).__name__}: {error}"
        return ""


class _Snapshot:
    """A program's nodes, meta and weights, to find what was changed."""

    def __init__(self, program: ExportedProgram) -> None:
        self._program = program
        self._metas = {node: dict(node.meta) for node in _nodes(program)}
        self._plain = {node: _spelled(node.meta) for node in self._metas}
        self._tensors = {
            name: (tensor, getattr(tensor, "_version", 0))
            for name, tensor in {**program.state_dict, **program.constants}.items()
        }

    def changes(self, program: Program) -> list[str]:
        """Everything that isn't as it was, but for delegation tags."""
        found = []
        given: ExportedProgram = program.exported
        if {*_nodes(given)} != self._metas.keys():
            found.append("nodes were added or removed")
        elif read_graph(given).fingerprint != program.graph.fingerprint:
            found.append("the facts have another fingerprint: an operator or argument changed")
        for node, old in self._metas.items():
            keys = {key for key in {*old, *node.meta} if node.meta.get(key) is not old.get(key)}
            spelled = _spelled(node.meta)
            keys |= {key for key, text in self._plain[node].items() if spelled.get(key) != text}
            if keys - {"delegation_tag"}:
                names = ", ".join(sorted(map(str, keys - {"delegation_tag"})))
                found.append(f"meta of node {node.name} changed: {names}")
        for name, tensor in {**given.state_dict, **given.constants}.items():
            old_tensor, version = self._tensors.get(name, (None, 0))
            if old_tensor is not tensor or getattr(tensor, "_version", 0) != version:
                found.append(f"the weight {name} was written or replaced")
        return found

    def restore(self) -> None:
        """Put every node's meta back, without the delegation tags."""
        for node, meta in self._metas.items():
            node.meta = dict(meta)


def _nodes(program: ExportedProgram) -> list[Any]:
    import torch

    return [
        node
        for module in program.graph_module.modules()
        if isinstance(module, torch.fx.GraphModule)
        for node in module.graph.nodes
    ]


def _spelled(meta: Mapping[str, Any]) -> dict[str, str]:
    """Containers in a node's meta as text: they can be changed in place."""
    return {key: repr(value) for key, value in meta.items() if isinstance(value, dict | list | set)}


__all__ = ["Asked", "Watching"]
