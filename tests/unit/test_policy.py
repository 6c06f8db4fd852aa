"""What a policy does to claims, and what it says of a plan."""

from __future__ import annotations

from dataclasses import replace

from tests.unit.test_settle_rules import claim
from tests.unit.test_settle_rules import program as drawn

from cede.claim import Answers
from cede.config import load_config
from cede.planning import Plan
from cede.policy import Policy, apply, judge, read_policy, unmatched
from cede.settle import settle
from cede.types import Claim, Code, Contest, Finding, OpGraph, Reason, Refusal, TensorFact


def program(text: str) -> OpGraph:
    """As in the rules of settling, with an output for each op: what has none computes nothing."""
    fact = TensorFact(shape=(1,), dtype="float32", nbytes=4)
    return OpGraph(ops=tuple(replace(op, outputs=(fact,)) for op in drawn(text).ops))


def policy(*overrides: str) -> Policy:
    return read_policy(load_config(None, [f"policy.{text}" for text in overrides]))


def answers(graph: OpGraph, *claims: Claim) -> list[Answers]:
    """One for each partitioner; ops that it does not claim it does not know."""
    found = []
    for name in dict.fromkeys(given.partitioner for given in claims):
        own = tuple(given for given in claims if given.partitioner == name)
        claimed = {op for given in own for op in given.ops}
        reason = Reason(code=Code.UNKNOWN_OP, detail="unknown")
        refusals = tuple(
            Refusal(partitioner=name, op=op.id, reason=reason)
            for op in graph.ops
            if op.id not in claimed
        )
        found.append(Answers(claims=own, refusals=refusals))
    return found


def claimed(given: Answers) -> list[str]:
    return [" ".join(sorted(claim.ops)) for claim in given.claims]


def refused(given: Answers) -> dict[str, str]:
    assert all(r.reason.code in (Code.POLICY, Code.UNKNOWN_OP) for r in given.refusals)
    return {r.op: r.reason.detail for r in given.refusals}


def plan(graph: OpGraph, rules: Policy, *claims: Claim) -> tuple[Plan, tuple[Finding, ...]]:
    left = apply(rules, graph, answers(graph, *claims))
    order = tuple(dict.fromkeys(given.partitioner for given in claims))
    found = settle(
        Contest(
            graph=graph,
            claims=tuple(claim for given in left for claim in given.claims),
            order=order,
            overall=rules.overall,
        )
    )
    made = Plan(
        fingerprint="",
        delegations=found.delegations,
        losses=found.losses,
        refusals=tuple(refusal for given in left for refusal in given.refusals),
    )
    backends = {given.partitioner: given.backend for given in claims}
    return made, judge(rules, graph, made, backends)


def test_without_rules_the_answers_are_left_as_they_are() -> None:
    graph = program("a b<a")
    given = answers(graph, claim("p", "a"))
    assert apply(policy(), graph, given) == tuple(given)
    assert not policy().filters


def test_a_divisible_claim_loses_the_excluded_ops_with_their_marks() -> None:
    graph = program("a b<a c<b")
    whole = Claim(
        partitioner="p", backend="p", ops=frozenset("abc"), divisible=True,
        marks=(("a", "key", 1), ("b", "key", 2)),
    )  # fmt: skip
    (left,) = apply(policy("exclude=[name:b]"), graph, answers(graph, whole))
    assert claimed(left) == ["a c"]
    assert left.claims[0].marks == (("a", "key", 1),)
    assert refused(left) == {"b": "policy.exclude[0] of override (name:b) excludes b from p"}


def test_a_claim_that_goes_whole_is_refused_whole_and_names_the_excluded_op() -> None:
    graph = program("a b<a c<b")
    (left,) = apply(policy("exclude=[name:b]"), graph, answers(graph, claim("p", "a b c")))
    assert claimed(left) == []
    rule = "policy.exclude[0] of override (name:b) excludes b from p"
    other = f"it goes with b or not at all, and {rule}"
    assert refused(left) == {"a": other, "b": rule, "c": other}


def test_an_op_that_stands_in_another_claim_is_not_refused() -> None:
    graph = program("a b<a c<b")
    given = answers(graph, claim("p", "a b"), claim("p", "a c"))
    (left,) = apply(policy("exclude=[name:b]"), graph, given)
    assert claimed(left) == ["a c"]
    assert list(refused(left)) == ["b"]


def test_exclude_and_pin_are_about_backends_not_partitioners() -> None:
    graph = program("a b<a")
    claims = [claim("p@x", "a b", divisible=True), claim("q@x", "a"), claim("r@y", "a")]
    left = apply(policy("exclude=['name:a,backend:x']"), graph, answers(graph, *claims))
    assert [claimed(given) for given in left] == [["b"], [], ["a"]]
    left = apply(policy("pin=['name:a,backend:y']"), graph, answers(graph, *claims))
    assert [claimed(given) for given in left] == [["b"], [], ["a"]]
    assert refused(left[1])["a"] == ("policy.pin[0] of override (name:a,backend:y) pins a to y")


def test_a_pattern_with_braces_is_told_as_it_is() -> None:
    graph = program("aa")
    (left,) = apply(policy("exclude=[{regex: 'a{2}'}]"), graph, answers(graph, claim("p", "aa")))
    assert refused(left)["aa"] == "policy.exclude[0] of override (regex:a{2}) excludes aa from p"


def test_only_the_first_claims_stand_by_priority_and_graph() -> None:
    graph = program("a g.<a b<g c<b d<c")
    first = [claim("p", "c d"), claim("p", "a g b", divisible=True)]
    given = answers(graph, *first, claim("q", "a"), claim("q", "d"))

    def left(most: int) -> list[list[str]]:
        return [claimed(one) for one in apply(policy(f"max_claims={most}"), graph, given)]

    assert left(0) == [[], []]
    assert left(1) == [["a g"], []]
    assert left(2) == [["a b g"], []]
    assert left(3) == [["c d", "a b g"], []]
    assert left(4) == [["c d", "a b g"], ["a"]]
    assert left(5) == [["c d", "a b g"], ["a", "d"]]
    last = apply(policy("max_claims=4"), graph, given)[1]
    assert refused(last)["d"] == "policy.max_claims of override is 4, and this is claim number 5"


def test_the_next_backend_may_have_what_is_excluded_from_the_first() -> None:
    made, findings = plan(
        program("a b<a"), policy("exclude=['name:a,backend:p']"),
        claim("p", "a b", divisible=True), claim("q", "a b", divisible=True),
    )  # fmt: skip
    assert {op: d.backend for op, d in made.delegation_of().items()} == {"a": "q", "b": "p"}
    assert findings == ()


def test_a_pin_that_is_not_met_says_why() -> None:
    graph = program("a b<a c<b")
    rules = policy("pin=['name:[ab],backend:q','name:c,backend:r','name:c,backend:p']")
    made, findings = plan(graph, rules, claim("p", "a b c", divisible=True), claim("q", "b"))
    assert [given.severity for given in findings] == ["error"] * 3
    assert findings[0].op == "a"
    assert findings[0].message == (
        "policy.pin[0] of override (name:[ab],backend:q) is not met: not in a delegate of q: 1 op\n"
        "  a (aten.op): q: unknown-op: unknown"
    )
    assert findings[1].message.endswith("  c (aten.op): r was not asked; add it to backends")
    assert findings[2].message.endswith(
        "  c (aten.op): p: policy: policy.pin[1] of override (name:c,backend:r) pins c to r"
    )
    assert "c" not in made.delegation_of()


def test_a_pin_that_is_lost_to_a_cycle_shows_the_way() -> None:
    graph = program("a y<a b<y")
    _, findings = plan(graph, policy("pin=['name:a,backend:p']"), claim("p", "a b"))
    assert "a (aten.op): p: not-convex: " in findings[0].message
    assert "a -> y -> b" in findings[0].message


def test_a_requirement_names_every_op_with_every_reason() -> None:
    graph = program("a b<a c<b")
    rules = policy("require=['op:aten.op']")
    _, (finding,) = plan(graph, rules, claim("p", "a"), claim("q", "b"))
    assert finding.severity == "error"
    assert finding.message == (
        "policy.require[0] of override (op:aten.op) is not met: outside every delegate: 1 op\n"
        "  c (aten.op): p: unknown-op: unknown; q: unknown-op: unknown"
    )
    _, (finding,) = plan(
        graph, policy("require=['name:a,backend:q']"), claim("p", "a"), claim("q", "b")
    )
    assert finding.message.splitlines()[1] == "  a (aten.op): p has it; q: unknown-op: unknown"


def test_fallback_is_ignored_warned_of_or_an_error() -> None:
    graph = program("a b<a g.<b c<g")

    def found(*texts: str) -> list[tuple[str, str]]:
        _, findings = plan(graph, policy(*texts), claim("p", "a"))
        return [(given.severity, given.message) for given in findings]

    assert found() == []
    ((severity, message),) = found("fallback=warn")
    assert severity == "warning"
    assert message == (
        "policy.fallback of override is warn: outside every delegate: 2 ops\n"
        "  b (aten.op): p: unknown-op: unknown\n  c (aten.op): p: unknown-op: unknown"
    )
    ((severity, message),) = found("fallback=error", "fallback_for=[name:c]")
    assert severity == "error"
    assert "outside every delegate: 1 op\n  c (" in message
    assert found("fallback=error", "fallback_for=[name:a]") == []


def test_many_ops_are_cut_short() -> None:
    graph = program(" ".join(f"o{i}" for i in range(30)))
    _, (finding,) = plan(graph, policy("fallback=warn", "exclude=['name:*']"), claim("p", "o0"))
    assert len(finding.message.splitlines()) == 22
    assert finding.message.endswith("\n  and 10 more")


def test_a_plan_from_elsewhere_with_an_excluded_op_is_found() -> None:
    graph = program("a b<a")
    made, _ = plan(graph, policy(), claim("p", "a b"))
    (finding,) = judge(policy("exclude=['name:b,backend:p']"), graph, made, {"p": "p"})
    assert finding.severity == "error"
    assert "is not met: in a delegate: 1 op\n  b (aten.op): p has it" in finding.message
    assert judge(policy("exclude=['name:b,backend:q']"), graph, made, {"p": "p"}) == ()


def test_rules_that_match_no_op_are_warned_of() -> None:
    graph = program("a b<a")
    rules = policy("exclude=['op:aten.opp','name:a']", "fallback_for=[name:z]", "fallback=warn")
    assert unmatched(rules, graph) == (
        (
            "policy.exclude[0] of override (op:aten.opp) matches no op: no op is like 'aten.opp';"
            " did you mean aten.op?"
        ),
        (
            "policy.fallback_for[0] of override (name:z) matches no op: no name is like 'z';"
            " known: a, b"
        ),
    )


def test_a_rule_by_id_is_told_what_had_to_be_decomposed() -> None:
    graph = program("a")
    (text,) = unmatched(policy("exclude=['name:linear_3']"), graph, ["linear_3", "linear_4"])
    assert text == (
        "policy.exclude[0] of override (name:linear_3) matches no op: no name is like 'linear_3';"
        " known: a (linear_3, linear_4 went to no delegate and had to be decomposed; if the rule"
        " was about that, select by module or layer)"
    )
    (text,) = unmatched(policy("exclude=[module:b]"), graph, ["linear_3"])
    assert text.endswith("no module is like 'b'; there are none")


def test_overall_limits_are_part_of_the_policy() -> None:
    rules = policy("max_delegates=1", "min_ops=2")
    assert rules.filters
    made, _ = plan(program("a b<a y<b c<y"), rules, claim("p", "a b c", divisible=True))
    assert [d.ops for d in made.delegations] == [("a", "b")]
