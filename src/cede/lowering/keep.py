"""Which ATen ops stay whole: asked before decomposition, remembered node by node."""

from __future__ import annotations

from collections import defaultdict
from functools import cache
from typing import TYPE_CHECKING, Any

import torch

from cede.facts.arguments import aten_overload
from cede.lowering.custom import is_custom, registered, unclaimed
from cede.lowering.encoded import encoded_ops, encoding_of, is_encoded
from cede.types import Keep, OpGraph, Partitioner, Program

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator, Mapping, Sequence

    from torch.export import ExportedProgram
    from torch.fx import Node

_EMPTY = OpGraph()


class Keeping:
    """The keep requests of all partitioners as one, minus what was dropped.

    A kept op that nobody claims has often no kernel, so it must be decomposed after all. The node
    names that were kept are remembered in order; `unclaimed` finds them again in the edge program,
    where they have other names but the same order.

    A custom operator whose decomposition is registered is kept with all its calls or not at all,
    and stands under its own name ("ns.op.default") where others stand under their nodes'.

    Attributes:
        kept: names of the ATen nodes that were kept, in graph order.
        warnings: requests that can't be met, each a sentence.
        certain: whether every partitioner promises to claim what it wants whole.
    """

    def __init__(
        self,
        partitioners: Sequence[Partitioner],
        options: Mapping[str, Any],
        dropped: Collection[str] = (),
        only: Collection[str] | None = None,
    ) -> None:
        """Prepare.

        Args:
            partitioners: in priority order.
            options: by backend name.
            dropped: names of what to decompose whatever anybody wants.
            only: names of what to keep, as an earlier plan did; None asks the partitioners.
        """
        self.partitioners = partitioners
        self.options = options
        self.dropped = frozenset(dropped)
        self.only = None if only is None else frozenset(only)
        self.kept: dict[str, Any] = {}
        self.warnings: list[str] = []
        self.certain = True

    def request(self, program: ExportedProgram) -> tuple[list[Any], Callable[[Node], bool] | None]:
        """What `ops_to_not_decompose` answers for an ATen program."""
        for node in _calls(program):  # what `wants_whole` left in the program
            if registered(node.target) is not None:
                self.kept[str(node.target)] = node.target
        # A custom op is in no table of ExecuTorch's, unless torch itself decomposes it.
        wanted = {
            op: checks
            for op, checks in self._wishes(program).items()
            if not is_custom(op) or op._can_decompose()
        }
        if not wanted:
            return [], None
        if self._keeps_all(wanted, program):
            return list(wanted), None

        def keeps(node: Node) -> bool:
            checks = wanted.get(node.target)
            if checks is None or node.name in self.dropped:
                return False
            if self.only is not None:
                accepted = node.name in self.only
            else:
                accepted = any(check is None or check(node) for check in checks)
            if accepted and _decomposable(node.target):
                self.kept[node.name] = node.target
            return accepted

        return list(wanted), keeps

    def wants_whole(self, op: Any, program: ExportedProgram) -> bool:
        """Whether a custom operator with a registered decomposition stays whole, every call."""
        if str(op) in self.dropped:
            return False
        if self.only is not None:
            return str(op) in self.only
        checks = self._wishes(program).get(op, [])
        return bool(checks) and all(
            any(check is None or check(node) for check in checks)
            for node in _calls(program)
            if node.target is op
        )

    def encoded(self, program: ExportedProgram, natives: Callable[[str], bool]) -> list[str]:
        """Names of the ops whose encoded weight must be decoded; remembers the others as kept.

        Args:
            program: an ATen program.
            natives: whether a backend that was asked computes with an encoding of that name.
        """
        left = []
        wishes = self._wishes(program) if next(encoded_ops(program), None) is not None else {}
        for node in encoded_ops(program):
            checks = wishes.get(node.target, [])
            if node.name in self.dropped:
                whole = False
            elif self.only is not None:
                whole = node.name in self.only
            else:
                whole = natives(encoding_of(node))
                whole = whole or any(check is None or check(node) for check in checks)
            if whole:
                self.kept[node.name] = node.target
            else:
                left.append(node.name)
        return left

    def _wishes(self, program: ExportedProgram) -> dict[Any, list[Callable[[Node], bool] | None]]:
        wanted: dict[Any, list[Callable[[Node], bool] | None]] = defaultdict(list)
        for partitioner in self.partitioners:
            for op, accepts in self._asked(partitioner, program):
                wanted[op].append(accepts)
        return wanted

    def _keeps_all(self, wanted: Mapping[Any, list[Any]], program: ExportedProgram) -> bool:
        """Whether every node of the wanted ops stays whole, so that no filter is needed.

        ExecuTorch keeps ops more reliably without one: it need not trace them under another name.
        """
        nodes = {n.name: n.target for n in program.graph.nodes if n.target in wanted}
        if self.only is not None:
            names = {name for name, op in nodes.items() if _decomposable(op)}
            everything = names <= self.only
        else:
            everything = all(None in checks for checks in wanted.values())
        if not everything or self.dropped & nodes.keys():
            return False
        self.kept.update({name: op for name, op in nodes.items() if _decomposable(op)})
        return True

    def _asked(self, partitioner: Partitioner, program: ExportedProgram) -> list[tuple[Any, Any]]:
        view = Program(
            graph=_EMPTY, exported=program, options=self.options.get(partitioner.backend)
        )
        try:
            keep: Keep = partitioner.keeps(view)
            ops = tuple(keep.ops)
            self.certain = self.certain and (keep.certain or not ops)
        except KeyboardInterrupt:
            raise
        except BaseException as error:
            self._warn(f"partitioner {partitioner.name}: keeps() failed: {error!r}")
            return []
        result = []
        for op in ops:
            if is_custom(op) and not (op._can_decompose() or registered(op) or is_encoded(op)):
                continue  # nothing would decompose it
            if why := _impossible(op):
                self._warn(f"partitioner {partitioner.name} wants {op} kept whole, but {why}")
            else:
                result.append((op, self._guarded(partitioner.name, keep.accepts)))
        return result

    def _guarded(
        self, name: str, accepts: Callable[[Node], bool] | None
    ) -> Callable[[Node], bool] | None:
        """The filter, but a node on which it fails is not kept."""
        if accepts is None:
            return None

        def guarded(node: Node) -> bool:
            try:
                return bool(accepts(node))
            except Exception as error:
                self._warn(
                    f"partitioner {name}: the filter of keeps() failed on {node.name}: {error!r}"
                )
                return False

        return guarded

    def _warn(self, text: str) -> None:
        if text not in self.warnings:
            self.warnings.append(text)

    def unclaimed(self, program: ExportedProgram, claimed: Collection[str]) -> set[str]:
        """Names of what was kept and whose edge nodes are in no delegation.

        Args:
            program: the edge program.
            claimed: ids of the delegated ops.
        """
        whole = {op for name, op in self.kept.items() if name == str(op)}
        kept: dict[Any, list[str]] = defaultdict(list)
        for name, op in self.kept.items():
            if op not in whole:
                kept[op].append(name)
        found: dict[Any, list[Node]] = defaultdict(list)
        for node in program.graph.nodes:
            overload = aten_overload(node.target) if node.op == "call_function" else None
            if overload in kept:
                found[overload].append(node)
        left = {str(op) for op in unclaimed(program, whole, claimed)}
        for op, nodes in found.items():
            free = [i for i, node in enumerate(nodes) if node.name not in claimed]
            if not free:
                continue
            if len(nodes) == len(kept[op]):
                left.update(kept[op][i] for i in free)
            else:  # an op that also stands in the program without being kept
                left.update(kept[op])
        return left


def _calls(program: ExportedProgram) -> Iterator[Node]:
    for module in program.graph_module.modules():
        if isinstance(module, torch.fx.GraphModule):
            yield from (node for node in module.graph.nodes if node.op == "call_function")


@cache
def _decompositions() -> frozenset[Any]:
    return frozenset(torch.export.default_decompositions())


def _decomposable(op: Any) -> bool:
    """Whether it makes a difference to keep the op whole."""
    return op in _decompositions() or bool(op._can_decompose())


def _impossible(op: Any) -> str:
    schema = getattr(op, "_schema", None)
    if schema is None:
        return "that is no operator overload"
    if schema.is_mutable:
        return f"it mutates an argument ({schema})"
    if any(given.alias_info is not None for given in schema.returns):
        return f"its result aliases an argument ({schema})"
    return ""
