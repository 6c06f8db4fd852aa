"""Rules that are about no op."""

from __future__ import annotations

from typing import TYPE_CHECKING

from cede.policy.selector import chosen, nearest

if TYPE_CHECKING:
    from collections.abc import Collection

    from cede.policy.rules import Policy
    from cede.types import OpGraph


def unmatched(policy: Policy, graph: OpGraph, decomposed: Collection[str] = ()) -> tuple[str, ...]:
    """A warning for each rule that matches no op, with the nearest right name.

    Args:
        policy: the rules.
        graph: the facts.
        decomposed: names of ATen nodes that were kept whole at first, went to no delegate, and
            were decomposed for that: a rule by id no longer finds them.
    """
    names = list(decomposed)
    shown = ", ".join(names[:5]) + (f" and {len(names) - 5} more" if names[5:] else "")
    found = []
    for rule in policy.rules:
        if chosen(rule.selector, graph):
            continue
        given = rule.selector
        text = f"{rule} matches no op: {nearest(given, graph)}"
        if names and (given.op or given.name or given.regex):
            text += (
                f" ({shown} went to no delegate and had to be decomposed; if the rule was about"
                " that, select by module or layer)"
            )
        found.append(text)
    return tuple(found)
