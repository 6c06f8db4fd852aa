"""Rules of the user over what partitioners claim: before settling they filter, after it they judge.

read_policy(config) -> Policy
apply(policy, graph, answers) -> answers        claims that a rule forbids become refusals
without(graph, answers, forbidden) -> answers   the same for ops that are forbidden one by one
judge(policy, graph, plan, backends) -> findings   pins, requirements and fallback
unmatched(policy, graph) -> warnings             rules that are about no op
"""

from cede.policy.apply import apply, without
from cede.policy.judge import judge
from cede.policy.rules import Policy, Rule, read_policy
from cede.policy.selector import chosen, nearest, selects_module
from cede.policy.unmatched import unmatched

__all__ = [
    "Policy",
    "Rule",
    "apply",
    "chosen",
    "judge",
    "nearest",
    "read_policy",
    "selects_module",
    "unmatched",
    "without",
]
