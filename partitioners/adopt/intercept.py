"""Watching a stock ExecuTorch partitioner at work. All that reaches inside upstream is here.

Stock partitioners first find what they support, then group it with torch.fx's
`CapabilityBasedPartitioner` or ExecuTorch's `GroupBasedPartitioner`, both worse than quadratic.
While one is watched, grouping hands back every supported unit alone, and each support check is
recorded: what was asked, what it answered, what it logged or printed. Upstream's classes are
restored after.
"""

from __future__ import annotations

import io
import logging
import sys
import threading
from contextlib import ExitStack, contextmanager, redirect_stdout
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any
from unittest import mock

from executorch.exir.backend.canonical_partitioners import group_partitioner
from executorch.exir.backend.canonical_partitioners.config_partitioner import (
    ConfigerationBasedPartitioner,
    format_target_name,
)
from executorch.exir.backend.utils import WhyNoPartition, WhyNoPartitionReporter
from torch.fx.passes.infra import partitioner as fx_partitioner

from cede.partitioners.adopt.silent import where_declined

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from torch.fx import Node

_LOCK = threading.RLock()


@dataclass(slots=True)
class Watched:
    """What a stock partitioner did.

    Attributes:
        units: whether its tags are single units, because grouping was taken over.
        reasons: by node name, what it said about a node that it left.
        silent: by node name, where a check declined without a word.
        no_rule: names of nodes whose operator it has no rule for.
    """

    units: bool = False
    reasons: dict[str, list[str]] = field(default_factory=dict)
    silent: dict[str, str] = field(default_factory=dict)
    no_rule: set[str] = field(default_factory=set)

    def say(self, node: str, text: str) -> None:
        """Keep a reason, each once."""
        texts = self.reasons.setdefault(node, [])
        if text and text not in texts:
            texts.append(text)


@contextmanager
def watching(stock: Any, grouped: bool = False) -> Iterator[Watched]:
    """Record what `stock` answers inside the context. One at a time per process.

    Args:
        stock: the partitioner.
        grouped: hand it groups instead of units where torch.fx's partitioner would group.
    """
    watched = Watched()
    listener = _Listener(watched)
    with _LOCK, ExitStack() as stack:
        stack.enter_context(_listening(listener))
        stack.enter_context(redirect_stdout(_Printed(listener)))

        def patch(owner: Any, name: str, new: Any) -> None:
            stack.enter_context(mock.patch.object(owner, name, new))

        # Both constructors build transitive closures that only their grouping needs.
        patch(fx_partitioner, "_DependencyViewer", lambda graph_module: None)
        patch(group_partitioner, "_DependencyViewer", lambda graph_module: None)
        patch(
            fx_partitioner.CapabilityBasedPartitioner,
            "propose_partitions",
            lambda self: _propose(self, watched, listener, (), grouped),
        )
        patch(
            group_partitioner.GroupBasedPartitioner,
            "propose_partitions",
            lambda self: _propose(self, watched, listener, self.node_groups or ()),
        )
        patch(
            WhyNoPartitionReporter,
            "report_reject",
            lambda self, node, reason: watched.say(node.name, reason),
        )
        if isinstance(stock, ConfigerationBasedPartitioner):
            for config in stock.target_partitioner_configs.values():
                check = _watch_check(config.check_constraints, watched, listener)
                stack.enter_context(mock.patch.object(config, "check_constraints", check))
        yield watched


def note_missing_rules(stock: Any, nodes: Iterator[Node], watched: Watched) -> None:
    """Note the nodes whose operator a config-based partitioner has no rule for."""
    if isinstance(stock, ConfigerationBasedPartitioner):
        rules = stock.target_partitioner_configs
        for node in nodes:
            name = getattr(node.target, "__name__", "")
            if format_target_name(name) not in rules:
                watched.no_rule.add(node.name)


def _watch_check(
    check: Callable[..., bool], watched: Watched, listener: _Listener
) -> Callable[..., bool]:
    def checked(node: Node, ep: Any) -> bool:
        with listener.about(node):
            accepted = bool(check(node, ep))
        if not accepted and not watched.reasons.get(node.name):
            with listener.about(None):
                watched.silent[node.name] = where_declined(lambda: check(node, ep))
        return accepted

    return checked


def _propose(
    partitioner: Any, watched: Watched, listener: _Listener, groups: Any, grouped: bool = False
) -> list[Any]:
    watched.units = not grouped
    known = {node: i for i, group in enumerate(groups) for node in group}
    members: dict[int, list[Node]] = {}
    levels: dict[Node, int] = {}
    taken: set[Node] = set()
    for node in partitioner.graph_module.graph.nodes:
        with listener.about(node):
            supported = partitioner._is_node_supported(node)
        if (reason := _kept_reason(partitioner.operator_support, node)) and not supported:
            watched.reasons[node.name] = [reason]
        if grouped:
            unit = levels[node] = _level(node, supported, levels, taken)
        else:
            unit = known.get(node, -1 - len(members))
        if supported:
            taken.add(node)
            members.setdefault(unit, []).append(node)
    return [
        fx_partitioner.Partition(id=i, nodes=dict.fromkeys(nodes))
        for i, nodes in enumerate(members.values())
    ]


def _level(node: Node, supported: bool, levels: dict[Node, int], taken: set[Node]) -> int:
    """The group of a node: all supported nodes of one level make a convex partition.

    One backend's fewest partitions (typed fusion, Kennedy and McKinley 1993).
    """
    return max(
        (levels[given] + (given in taken and not supported) for given in node.all_input_nodes),
        default=0,
    )


def _kept_reason(support: Any, node: Node) -> str:
    """What a support check found out beforehand and keeps in a table instead of logging it."""
    reasons = getattr(support, "_unsupported_reason", None)
    return str(reasons.get(node, "")) if isinstance(reasons, dict) else ""


class _Listener(logging.Handler):
    """Gives every log record to the node that is being asked about."""

    def __init__(self, watched: Watched) -> None:
        super().__init__(level=logging.DEBUG)
        self.watched = watched
        self.node: Node | None = None

    @contextmanager
    def about(self, node: Node | None) -> Iterator[None]:
        outer, self.node = self.node, node
        try:
            yield
        finally:
            self.node = outer

    def emit(self, record: logging.LogRecord) -> None:
        # WhyNoPartition reuses one object for all its messages: read it now.
        if isinstance(record.msg, WhyNoPartition):
            if record.msg.node is not None:
                self.watched.say(record.msg.node.name, record.msg.reason)
        elif self.node is not None:
            self.watched.say(self.node.name, record.getMessage())


class _Printed(io.TextIOBase):
    """Gives every line that is printed about a node to it, and any other to stderr."""

    def __init__(self, listener: _Listener) -> None:
        self.listener = listener
        self.begun = ""

    def writable(self) -> bool:
        return True

    def write(self, text: str) -> int:
        if self.listener.node is None:
            return sys.stderr.write(text)
        *lines, self.begun = (self.begun + text).split("\n")
        for line in lines:
            self.listener.watched.say(self.listener.node.name, " ".join(line.split()))
        return len(text)


@contextmanager
def _listening(listener: _Listener) -> Iterator[None]:
    """Send ExecuTorch's and the root logger's records to the listener alone."""
    names = [name for name in logging.root.manager.loggerDict if name.startswith("executorch")]
    loggers = [logging.root, *map(logging.getLogger, names)]
    before = [(each, each.level, each.propagate, each.handlers, each.disabled) for each in loggers]
    threshold = logging.root.manager.disable
    logging.disable(logging.NOTSET)
    for each in loggers:
        each.handlers, each.propagate, each.disabled = [listener], False, False
        each.setLevel(logging.DEBUG)
    try:
        yield
    finally:
        for each, level, propagate, handlers, disabled in before:
            each.handlers, each.propagate, each.disabled = handlers, propagate, disabled
            each.setLevel(level)
        logging.disable(threshold)
