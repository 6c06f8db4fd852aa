"""Rules that are about no op."""

from __future__ import annotations

from typing import TYPE_CHECKING

from cede.config import SelectorConfig
from cede.policy.selector import chosen, nearest
from cede.types import Op, OpGraph

if TYPE_CHECKING:
    from collections.abc import Mapping

    from cede.policy.rules import Policy


def unmatched(
    policy: Policy, graph: OpGraph, decomposed: Mapping[str, str] | None = None
) -> tuple[str, ...]:
    """A warning for each rule that matches no op, with the nearest right name.

    Args:
        policy: the rules.
        graph: the facts.
        decomposed: operators by node name that were kept whole at first, went to no delegate, and
            were decomposed for that: a rule by operator no longer finds them.
    """
    whole = OpGraph(ops=tuple(Op(id=name, target=op) for name, op in (decomposed or {}).items()))
    found = []
    for rule in policy.rules:
        if chosen(rule.selector, graph):
            continue
        given = rule.selector
        by_name = SelectorConfig(op=given.op, name=given.name, regex=given.regex)
        gone = chosen(by_name, whole) if str(by_name) else ()
        if gone:
            names = ", ".join(gone[:5]) + (f" and {len(gone) - 5} more" if gone[5:] else "")
            found.append(
                f"{rule} matches no op any more: {names} went to no delegate and had to be"
                " decomposed, and the rule does not know the parts; select by module or layer"
            )
        else:
            found.append(f"{rule} matches no op: {nearest(given, graph)}")
    return tuple(found)
