"""Whatever the graph, the claims and the policy: what must hold of the outcome."""

from __future__ import annotations

from dataclasses import replace

from hypothesis import given, settings
from hypothesis import strategies as st
from tests.unit.test_settle_properties import BACKENDS
from tests.unit.test_settle_properties import contests as bare

from cede.claim import Answers
from cede.config import Config, PolicyConfig, SelectorConfig
from cede.planning import Plan
from cede.policy import Policy, apply, chosen, judge, read_policy
from cede.policy.judge import SHOWN
from cede.settle import check_settlement, settle
from cede.types import Code, Contest, OpGraph, Reason, Refusal, Settlement, TensorFact

NAMES = ("o1", "o2", "o3", "*o1", "*o2*", "*[13579]", "*", "none")


@st.composite
def contests(draw) -> Contest:
    """Every op has an output: what has none computes nothing."""
    contest = draw(bare())
    fact = TensorFact(shape=(1,), dtype="float32", nbytes=4)
    ops = tuple(replace(op, outputs=(fact,)) for op in contest.graph.ops)
    return replace(contest, graph=OpGraph(ops=ops))


@st.composite
def selectors(draw, backend: bool) -> SelectorConfig:
    name = draw(st.sampled_from(NAMES))
    return SelectorConfig(
        name=name, backend=draw(st.sampled_from(BACKENDS if backend else (*BACKENDS, "")))
    )


@st.composite
def policies(draw) -> Policy:
    count = st.one_of(st.none(), st.integers(0, 4))
    return read_policy(
        Config(
            policy=PolicyConfig(
                exclude=draw(st.lists(selectors(False), max_size=2)),
                pin=draw(st.lists(selectors(True), max_size=2)),
                require=draw(st.lists(selectors(False), max_size=1)),
                max_claims=draw(st.one_of(st.none(), st.integers(0, 8))),
                min_ops=draw(count),
                max_delegates=draw(count),
            )
        )
    )


def answered(contest: Contest) -> list[Answers]:
    reason = Reason(code=Code.UNKNOWN_OP, detail="unknown")
    found = []
    for name in contest.order:
        own = tuple(c for c in contest.claims if c.partitioner == name and c.ops)
        claimed = {op for c in own for op in c.ops}
        left = [op.id for op in contest.graph.ops if op.id not in claimed]
        refusals = tuple(Refusal(partitioner=name, op=op, reason=reason) for op in left)
        found.append(Answers(claims=own, refusals=refusals))
    return found


def outcome(contest: Contest, policy: Policy) -> tuple[tuple[Answers, ...], Settlement]:
    left = apply(policy, contest.graph, answered(contest))
    claims = tuple(c for given in left for c in given.claims)
    return left, settle(replace(contest, claims=claims, overall=policy.overall))


def kind(contest: Contest, op: str) -> str:
    return contest.graph.op(op).target


@settings(max_examples=600, deadline=None)
@given(contests(), policies())
def test_each_op_is_in_one_place_for_each_partitioner(contest: Contest, policy: Policy):
    left, found = outcome(contest, policy)
    assert check_settlement(contest.graph, found) == []
    places = [(r.op, r.partitioner) for given in left for r in given.refusals]
    places += [(loss.op, loss.partitioner) for loss in found.losses]
    parts = [(op, p.partitioner) for d in found.delegations for p in d.parts for op in p.ops]
    # a getitem goes with its producer, whatever its own partitioner said
    places += [pair for pair in parts if pair not in places or kind(contest, pair[0]) != "getitem"]
    assert sorted(places) == sorted(
        (op.id, name) for op in contest.graph.ops for name in contest.order
    )


@settings(max_examples=600, deadline=None)
@given(contests(), policies())
def test_what_a_rule_forbids_is_never_delegated(contest: Contest, policy: Policy):
    left, found = outcome(contest, policy)
    taken = {op: d.backend for d in found.delegations for op in d.ops}
    for rule in policy.exclude:
        for op in chosen(rule.selector, contest.graph):
            assert op not in taken or rule.selector.backend not in ("", taken[op])
    for rule in policy.pin:
        for op in chosen(rule.selector, contest.graph):
            assert taken.get(op, rule.selector.backend) == rule.selector.backend
    if policy.max_claims is not None:
        standing = [
            op if c.divisible else "all of it"
            for given in left
            for c in given.claims
            for op in (c.ops if c.divisible else ("",))
            if not c.divisible or kind(contest, op) != "getitem"
        ]
        assert len(standing) <= policy.max_claims


@settings(max_examples=600, deadline=None)
@given(contests(), policies())
def test_pins_and_requirements_hold_or_are_errors(contest: Contest, policy: Policy):
    left, found = outcome(contest, policy)
    plan = Plan(
        fingerprint="",
        delegations=found.delegations,
        losses=found.losses,
        refusals=tuple(r for given in left for r in given.refusals),
    )
    homes = {c.partitioner: c.backend for c in contest.claims}
    findings = judge(policy, contest.graph, plan, homes)
    taken = {op: d.backend for d in found.delegations for op in d.ops}
    for rule in (*policy.pin, *policy.require):
        backend = rule.selector.backend
        missing = [
            op
            for op in chosen(rule.selector, contest.graph)
            if not contest.graph.op(op).bookkeeping
            and (op not in taken or backend not in ("", taken[op]))
        ]
        told = [f for f in findings if f.message.startswith(f"{rule} is not met")]
        assert len(told) == bool(missing)
        for finding in told:
            assert finding.severity == "error"
            assert all(f"\n  {op} (" in finding.message for op in missing[:SHOWN])
            assert ": no partitioner was asked" not in finding.message
