"""Does a plan meet the policy? Pins, requirements, and what falls back."""

from __future__ import annotations

from typing import TYPE_CHECKING

from cede.policy.selector import chosen
from cede.types import Finding

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from cede.planning import Plan
    from cede.policy.rules import Policy, Rule
    from cede.types import Loss, OpGraph, Refusal

SHOWN = 20
"""How many ops one finding names."""


def judge(
    policy: Policy, graph: OpGraph, plan: Plan, backends: Mapping[str, str]
) -> tuple[Finding, ...]:
    """What in a plan does not meet the policy, one finding a rule; () for a plan that does.

    Errors: an excluded op in a delegate (only a plan from elsewhere can have that), a pinned op
    that its backend didn't get, a required op outside, an op left where `fallback` is "error"; a
    warning where it is "warn". Each op is named with every reason. Ops that compute nothing don't
    matter.

    Args:
        policy: the rules.
        graph: the facts.
        plan: made for this graph.
        backends: the backend of each partitioner that was asked.
    """
    return tuple(_Judge(policy, graph, plan, backends).findings())


class _Judge:
    def __init__(
        self, policy: Policy, graph: OpGraph, plan: Plan, backends: Mapping[str, str]
    ) -> None:
        self.policy, self.graph, self.backends = policy, graph, backends
        self.taken = {op: given.backend for given in plan.delegations for op in given.ops}
        self.said: dict[str, list[tuple[str, str]]] = {}
        for refusal in plan.refusals:
            self._note(refusal)
        for loss in plan.losses:
            self._note(loss)

    def _note(self, answer: Refusal | Loss) -> None:
        self.said.setdefault(answer.op, []).append((answer.partitioner, str(answer.reason)))

    def findings(self) -> Iterator[Finding]:
        for rule in self.policy.exclude:
            inside = [
                op
                for op in self._ops(rule)
                if op in self.taken and rule.selector.backend in ("", self.taken[op])
            ]
            if inside:
                yield self._finding("error", f"{rule} is not met: in a delegate", inside, "")
        for rule in self.policy.pin:
            backend = rule.selector.backend
            yield from self._missing(rule, f"not in a delegate of {backend}", backend)
        for rule in self.policy.require:
            backend = rule.selector.backend
            where = f"not in a delegate of {backend}" if backend else "outside every delegate"
            yield from self._missing(rule, where, backend)
        yield from self._fallen()

    def _missing(self, rule: Rule, where: str, backend: str) -> Iterator[Finding]:
        missing = [
            op
            for op in self._ops(rule)
            if (self.taken.get(op) != backend if backend else op not in self.taken)
        ]
        if missing:
            yield self._finding("error", f"{rule} is not met: {where}", missing, backend)

    def _fallen(self) -> Iterator[Finding]:
        policy = self.policy
        if policy.fallback == "ignore":
            return
        about = {op for rule in policy.fallback_for for op in self._ops(rule)}
        left = [
            op.id
            for op in self.graph.ops
            if not op.bookkeeping
            and op.id not in self.taken
            and (op.id in about or not policy.fallback_for)
        ]
        if left:
            severity = "error" if policy.fallback == "error" else "warning"
            head = f"{policy.place} is {policy.fallback}: outside every delegate"
            yield self._finding(severity, head, left, "")

    def _ops(self, rule: Rule) -> list[str]:
        ops = chosen(rule.selector, self.graph)
        return [op for op in ops if not self.graph.op(op).bookkeeping]

    def _finding(self, severity: str, head: str, ops: Sequence[str], backend: str) -> Finding:
        lines = [f"{head}: {len(ops)} op{'s' if ops[1:] else ''}"]
        lines += [f"  {self.graph.op(op).where}: {self._why(op, backend)}" for op in ops[:SHOWN]]
        if ops[SHOWN:]:
            lines.append(f"  and {len(ops) - SHOWN} more")
        return Finding(severity=severity, message="\n".join(lines), op="" if ops[1:] else ops[0])

    def _why(self, op: str, backend: str) -> str:
        """Every reason; where a backend is named, those of its partitioners."""
        if backend and backend not in self.backends.values():
            return f"{backend} was not asked; add it to backends"
        said = [
            f"{who}: {reason}"
            for who, reason in self.said.get(op, ())
            if not backend or self.backends.get(who) == backend
        ]
        if op in self.taken:
            said.insert(0, f"{self.taken[op]} has it")
        return "; ".join(said) or "no partitioner was asked"
