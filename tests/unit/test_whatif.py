"""What other answers would change: comparisons and the ranking."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest
from tests.unit.test_settle_rules import claim, program

from cede.claim import Answers
from cede.config import load_config
from cede.errors import ConfigError
from cede.planning import Plan
from cede.policy import apply, read_policy
from cede.settle import settle
from cede.types import (
    Claim,
    Code,
    Contest,
    Costs,
    Delegation,
    OpGraph,
    Rates,
    Reason,
    Refusal,
    TensorFact,
)
from cede.whatif import Asked, Rank, comparison_json, rank, ranked, ranking_text, what_if

FACT = TensorFact(shape=(1,), dtype="float32", nbytes=4)


def asked(text: str, *claims: Claim, kinds: dict[str, str], policy: tuple[str, ...] = ()) -> Asked:
    """A program whose ops do 100 FLOPs each; what is not claimed is refused as unknown."""
    graph = OpGraph(
        ops=tuple(
            replace(
                op,
                outputs=(FACT,),
                flops=0 if op.target == "getitem" else 100,
                target=f"aten.{kinds[op.id]}.default" if op.id in kinds else op.target,
            )
            for op in program(text).ops
        )
    )
    names = dict.fromkeys(c.partitioner for c in claims)
    answers = []
    for name in names:
        own = tuple(c for c in claims if c.partitioner == name)
        claimed = {op for c in own for op in c.ops}
        answers.append(
            Answers(
                claims=own,
                refusals=tuple(
                    Refusal(
                        partitioner=name,
                        op=op.id,
                        reason=Reason(code=Code.UNKNOWN_OP, detail=f"no rule for {op.target}"),
                    )
                    for op in graph.ops
                    if op.id not in claimed
                ),
            )
        )
    rules = read_policy(load_config(None, [f"policy.{one}" for one in policy]))

    def decide(given: list[Answers]) -> tuple[Delegation, ...]:
        left = apply(rules, graph, given)
        claims = tuple(c for one in left for c in one.claims)
        return settle(Contest(graph=graph, claims=claims, order=tuple(names))).delegations

    return Asked(
        graph=graph,
        answers=tuple(answers),
        backends={c.partitioner: c.backend for c in claims},
        settle=decide,
        plan=Plan(fingerprint="", delegations=decide(answers)),
    )


def blocks(**more) -> Asked:
    """Three ops on p with two norms between them, and a topk with a getitem at the end."""
    return asked(
        "a n<a b<n m<b c<m t<c g.<t d<g",
        claim("p", "a b c d", divisible=True),
        kinds={"n": "norm", "m": "norm", "t": "topk"},
        **more,
    )


def test_supporting_an_operator_merges_delegates_and_says_so_in_one_sentence() -> None:
    found = what_if(blocks(), support=[("aten.norm", "p")])
    assert str(found) == (
        "supporting aten.norm on p: 4 -> 2 delegates, 4 -> 6 of 7 ops, +28.6 % FLOPs covered,"
        " +0 % weight bytes covered"
    )
    assert found.gained == ("n", "m")
    assert found.lost == ()


def test_with_costs_the_sentence_has_predicted_seconds() -> None:
    plain = blocks()
    costs = Costs(
        fallback=Rates(flops_per_second=1e8, bytes_per_second=1e12),
        backends={"p": Rates(flops_per_second=1e9, bytes_per_second=1e12, launch_seconds=1e-6)},
    )
    given = replace(plain, plan=replace(plain.plan, costs=costs))
    found = what_if(given, support=[("aten.norm", "p")])
    # seven ops of 100 FLOPs, the getitem none: 0.1 us on p, 1 us off it; 1 us for each delegate
    assert found.seconds_before == pytest.approx(4 * 0.1e-6 + 2 * 1e-6 + 4e-6 + 1e-6)
    assert found.seconds_after == pytest.approx(6 * 0.1e-6 + 2e-6 + 1e-6)
    assert str(found).endswith("weight bytes covered, predicted 7.4 us -> 3.6 us a call")
    assert json.loads(comparison_json(found))["seconds_after"] == found.seconds_after
    assert "seconds_after" not in json.loads(comparison_json(what_if(plain, without=["p"])))


def test_an_operator_goes_with_its_getitems() -> None:
    found = what_if(blocks(), support=[("aten.t*", "p")])
    assert found.gained == ("t", "g")
    assert (found.before.delegates, found.after.delegates) == (4, 3)
    found = what_if(blocks(), support=[("aten.t*", "p"), ("aten.norm.default", "p")])
    assert found.change == "supporting aten.t* on p, aten.norm.default on p"
    assert found.after.delegates == 1


def test_without_a_backend_its_ops_go_to_the_next_or_fall_back() -> None:
    given = asked(
        "a b<a", claim("p", "a b", divisible=True), claim("q", "b"), kinds={"a": "x", "b": "y"}
    )
    found = what_if(given, without=["p"])
    assert str(found).startswith("without p: 1 -> 1 delegates, 2 -> 1 of 2 ops, -50 % FLOPs")
    assert found.lost == ("a",)


def test_a_control_flow_op_goes_with_its_branches() -> None:
    given = asked("t/u f[t] a<f", claim("p", "a"), kinds={})
    found = what_if(given, support=[("cond", "p")])
    assert found.gained == ("t/u", "f")
    assert found.after.delegates == 1


def test_a_claim_has_the_specs_that_most_claims_of_the_partitioner_have() -> None:
    specs = (("key", b"1"),)
    given = asked(
        "a n<a b<n",
        claim("p", "a", specs=specs), claim("p", "b", specs=specs),
        kinds={"n": "norm"},
    )  # fmt: skip
    assert what_if(given, support=[("aten.norm", "p")]).after.delegates == 1


def test_the_policy_holds_in_a_what_if() -> None:
    found = what_if(blocks(policy=("exclude=[name:m]",)), support=[("aten.norm", "p")])
    assert found.gained == ("n",)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({}, "nothing to change: give an operator to support or a backend to do without"),
        ({"without": ["pp"]}, "backend pp was not asked; did you mean"),
        ({"support": [("aten.norm", "z")]}, "backend z was not asked; known: p"),
        ({"support": [("aten.nrom", "p")]}, "aten.nrom: the program has no such op: no op is like"),
        ({"support": [("", "p")]}, "no operator to support on p; give one"),
        ({"support": [("aten.op", "p")]}, "aten.op: p refuses none of these 4 ops"),
        ({"support": [("aten.norm", "p")], "without": ["p"]}, "p can't support aten.norm and not"),
    ],
)
def test_what_can_not_be_asked(change: dict[str, list[object]], message: str) -> None:
    with pytest.raises(ConfigError, match="^" + message.replace(".", r"\.")):
        what_if(blocks(), **change)  # type: ignore[arg-type]


def shown(ranks: tuple[Rank, ...]) -> list[tuple[str, str, int, int, int]]:
    return [(one.kind, one.backend, one.merged, one.flops, one.touches) for one in ranks]


def test_the_ranking_sorts_by_merged_delegates_then_by_flops() -> None:
    found = ranked(blocks())
    assert shown(found) == [("aten.norm", "p", 2, 200, 3), ("aten.topk", "p", 1, 100, 2)]
    assert found[0].ops == ("n", "m")
    assert str(found[0].reason) == "unknown-op: no rule for aten.norm.default"


def test_operators_that_touch_no_delegate_of_the_backend_are_not_tried() -> None:
    given = asked(
        "a n<a m<n q<m b<q",
        claim("p", "a b", divisible=True), claim("r", "q"),
        kinds={"n": "near", "m": "far", "q": "other"},
    )  # fmt: skip
    found = shown(ranked(given))
    assert {one[:2] for one in found} == {
        ("aten.near", "p"), ("aten.other", "p"), ("aten.far", "r"), ("aten.op", "r"),
    }  # fmt: skip
    assert found[0][:3] == ("aten.other", "p", 1)  # it takes the place of a delegate of r


def test_the_ranking_stays_cheap(monkeypatch: pytest.MonkeyPatch) -> None:
    ids = [f"n{i}" for i in range(80)]
    text = "a " + " ".join(f"{id}<a" for id in ids)
    given = asked(text, claim("p", "a"), kinds={id: id for id in ids})
    calls: list[object] = []

    def counted(answers: object) -> tuple[Delegation, ...]:
        calls.append(answers)
        return ()

    ranked(replace(given, settle=counted))
    assert len(calls) == 50
    calls.clear()
    monkeypatch.setattr(rank, "EFFORT", 200)
    ranked(replace(given, settle=counted))
    assert len(calls) == 2


def test_the_ranking_as_a_table_has_only_what_merges() -> None:
    ranks = ranked(blocks())
    text = ranking_text(ranks, 1)
    assert text.startswith("Would merge most, if supported\noperator ")
    assert "aten.norm" in text
    assert "4 -> 2" in text
    assert "+28.6 %" in text
    assert "aten.topk" not in text
    assert "| aten.topk" in ranking_text(ranks, markdown=True)
    nothing = asked("a n<a", claim("p", "a"), kinds={"n": "norm"})
    assert ranking_text(ranked(nothing)) == ""
    assert len(ranked(nothing)) == 1


def test_json_has_the_comparison_and_the_ranking() -> None:
    given = blocks()
    data = json.loads(comparison_json(what_if(given, support=[("aten.norm", "p")])))
    assert data["schema"] == 1
    assert data["before"]["delegates"] == 4
    assert data["after"]["delegates"] == 2
    assert data["gained"] == ["n", "m"]
    assert data["text"].startswith("supporting aten.norm on p: ")
    data = json.loads(comparison_json(None, ranked(given)))
    assert [one["operator"] for one in data["ranking"]] == ["aten.norm", "aten.topk"]
    assert data["ranking"][0]["code"] == "unknown-op"
