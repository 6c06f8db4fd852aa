"""Any stock ExecuTorch partitioner as one of ours: claims, and refusals with the reason it had."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from cede.quiet import logging_kept
from cede.types import Claim, Code, Keep, Reason, Refusal

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from cede.partitioners.adopt.intercept import Watched
    from cede.types import Mark, Program, Spec

__all__ = ["Adopted"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Adopted:
    """A partitioner of ours around a stock one.

    Attributes:
        name: name of the partitioner.
        backend: name of the backend that it claims for.
        delegate_id: the only backend id that its delegation specs may carry.
        make: builds the stock partitioner from the backend's options; called for each question, so
            that no state is left between two. Imports what is heavy when called.
        grouped: let it see the groups that torch.fx's partitioner would form, where what it takes
            depends on them; a claim is then such a group, and divisible.
    """

    name: str
    backend: str
    delegate_id: str
    make: Callable[[Any], Any]
    grouped: bool = False

    def keeps(self, program: Program) -> Keep:
        """What the stock partitioner wants whole and can be, with its own filter."""
        wanted, accepts = self._stock(program).ops_to_not_decompose(program.exported)
        ops = [op for op in wanted if _functional(op)]  # ExecuTorch passes over the others, too
        # With a filter, ExecuTorch itself fails for an op that is kept and then not claimed.
        return Keep(ops=tuple(ops), accepts=accepts, certain=accepts is not None)

    def claim(self, program: Program) -> Iterator[Claim | Refusal]:
        """One claim per unit that the stock partitioner tags, a refusal for every other op."""
        from cede.partitioners.adopt.intercept import note_missing_rules, watching

        stock = self._stock(program)
        nodes = [n for n in program.exported.graph.nodes if n.op == "call_function"]
        before = {node.name: dict(node.meta) for node in program.exported.graph.nodes}
        with watching(stock, self.grouped) as watched:
            specs = stock.partition(program.exported).partition_tags
        note_missing_rules(stock, iter(nodes), watched)
        marks = {node.name: tuple(_marks(node, before[node.name])) for node in nodes}
        tagged: dict[str, list[str]] = {}
        for node in nodes:
            if (tag := node.meta.get("delegation_tag")) is not None:
                tagged.setdefault(tag, []).append(node.name)
        for node in program.exported.graph.nodes:  # it is read-only; the claims have the marks
            node.meta = before[node.name]
        for tag, ops in tagged.items():
            yield Claim(
                partitioner=self.name,
                backend=self.backend,
                ops=frozenset(ops),
                specs=self._specs(specs[tag]),
                divisible=not watched.units,
                marks=tuple(mark for op in ops for mark in marks.get(op, ())),
            )
        yield from self._refusals(program, {op for ops in tagged.values() for op in ops}, watched)

    def _refusals(self, program: Program, taken: set[str], watched: Watched) -> Iterator[Refusal]:
        from cede.partitioners.adopt.reasons import reason_for

        for op in program.graph.ops:
            if op.id in taken:
                continue
            if op.scope:
                reason = Reason(
                    code=Code.CONTROL_FLOW,
                    detail=f"the partitioner doesn't look inside {op.scope.rpartition('/')[0]}",
                )
            else:
                said = watched.reasons.get(op.id, [])
                silent = watched.silent.get(op.id, "")
                reason = reason_for(op, program.graph, said, silent, op.id in watched.no_rule)
            yield Refusal(partitioner=self.name, op=op.id, reason=reason)

    def _stock(self, program: Program) -> Any:
        with logging_kept("executorch"):
            return self.make(program.options)

    def _specs(self, spec: Any) -> tuple[Spec, ...]:
        if spec.backend_id != self.delegate_id:
            raise ValueError(
                f"{self.name} tags for {spec.backend_id}, but {self.backend} is {self.delegate_id}"
            )
        return tuple((given.key, bytes(given.value)) for given in spec.compile_specs)


def _functional(op: Any) -> bool:
    """Whether an operator neither writes an argument nor returns a view of one."""
    schema = op._schema
    return not schema.is_mutable and all(one.alias_info is None for one in schema.returns)


def _marks(node: Any, before: dict[str, Any]) -> Iterator[Mark]:
    """What the stock partitioner wrote on a node beside its tag: its compiler may read it."""
    for key, value in node.meta.items():
        if key == "delegation_tag" or (key in before and before[key] is value):
            continue
        plain = tuple(value) if isinstance(value, list) else value
        parts = plain if isinstance(plain, tuple) else (plain,)
        if all(isinstance(part, (bool, int, float, str)) for part in parts):
            yield (node.name, key, plain)
