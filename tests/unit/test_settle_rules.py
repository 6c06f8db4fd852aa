"""Who wins, what goes together, and the words for what was lost."""

from __future__ import annotations

import pytest

from cede.errors import ConfigError, PluginError
from cede.settle import settle
from cede.types import Claim, Code, Contest, Limits, Op, OpGraph, Settlement


def program(text: str) -> OpGraph:
    """One op a word: "a b<a c<a,b", "t/g<.." in branch t, "f[t]<a" runs it, "g.<a" a getitem."""
    ops = []
    for word in text.split():
        head, _, reads = word.partition("<")
        head, _, branches = head.rstrip("]").partition("[")
        name = head.rstrip(".")
        scope = name.rpartition("/")[0]
        ops.append(
            Op(
                id=name,
                target="getitem" if head.endswith(".") else "cond" if branches else "aten.op",
                inputs=tuple(reads.split(",")) if reads else ("x",),
                scope=scope,
                branches=tuple(branches.split("|")) if branches else (),
            )
        )
    return OpGraph(ops=tuple(ops))


def claim(who: str, ops: str, *, divisible: bool = False, specs=()) -> Claim:
    name, _, backend = who.partition("@")
    return Claim(
        partitioner=name,
        backend=backend or name,
        ops=frozenset(ops.split()),
        divisible=divisible,
        specs=specs,
    )


def run(text: str, *claims: Claim, **contest) -> Settlement:
    order = tuple(dict.fromkeys(c.partitioner for c in claims))
    return settle(Contest(**{"graph": program(text), "claims": claims, "order": order, **contest}))


def taken(found: Settlement) -> list[str]:
    """ "xnn: a b" for each delegation, parts apart by "|" where several partitioners share it."""
    return [
        f"{d.backend}: " + " | ".join(" ".join(part.ops) for part in d.parts)
        for d in found.delegations
    ]


def lost(found: Settlement) -> dict[str, Code]:
    return {f"{loss.partitioner} {loss.op}": loss.reason.code for loss in found.losses}


def words(found: Settlement, op: str) -> str:
    return next(loss.reason.detail for loss in found.losses if loss.op == op)


def test_the_order_decides_not_the_claims_order():
    claims = (claim("q", "a"), claim("p", "a b", divisible=True))
    assert taken(run("a b<a", *claims, order=("p", "q"))) == ["p: a b"]
    assert taken(run("a b<a", *claims, order=("q", "p"))) == ["q: a", "p: b"]


def test_a_claim_that_lost_one_op_loses_all_and_says_to_whom():
    found = run("a b<a c<b", claim("p", "b"), claim("q", "a b c"))
    assert taken(found) == ["p: b"]
    assert lost(found) == {"q a": Code.OUTBID, "q b": Code.OUTBID, "q c": Code.OUTBID}
    assert "'p' for 'p' has b" in words(found, "c")


def test_overlapping_claims_of_one_backend_join():
    found = run("a b<a c<b", claim("p@x", "a b"), claim("q@x", "b c"))
    assert taken(found) == ["x: a b | c"]
    assert lost(found) == {"q b": Code.OUTBID}
    assert "one delegate" in words(found, "b")


def test_other_compile_specs_never_share_a_delegate():
    found = run("a b<a", claim("p", "a", specs=(("k", b"1"),)), claim("p", "b"))
    assert [(d.specs, d.ops) for d in found.delegations] == [
        ((("k", b"1"),), ("a",)),
        ((), ("b",)),
    ]
    found = run("a", claim("p", "a", specs=(("k", b"1"),)), claim("p", "a"))
    assert len(found.delegations) == 1
    assert found.losses == ()


def test_a_getitem_goes_with_its_producer_whoever_claimed_it():
    text = "a g.<a h.<a b<g,h"
    found = run(text, claim("p", "a"), claim("q", "g h b", divisible=True))
    assert taken(found) == ["p: a g h", "q: b"]
    assert lost(found) == {"q g": Code.OUTBID, "q h": Code.OUTBID}
    found = run(text, claim("q", "g b", divisible=True))
    assert taken(found) == ["q: b"]
    assert words(found, "g") == "getitem goes with its producer a, which is not taken"


def test_getitems_of_getitems():
    assert taken(run("a g.<a h.<g b<h", claim("p", "a b", divisible=True))) == ["p: a g h b"]


def test_a_claim_that_is_not_convex_names_the_path():
    found = run("a z<a b<z", claim("p", "a b"))
    assert taken(found) == []
    assert lost(found) == {"p a": Code.NOT_CONVEX, "p b": Code.NOT_CONVEX}
    assert "a -> z -> b" in words(found, "a")


def test_ops_of_a_claim_that_falls_go_to_the_next():
    found = run("a z<a b<z", claim("p", "a b"), claim("q", "a b", divisible=True))
    assert taken(found) == ["q: a", "q: b"]
    assert lost(found) == {"p a": Code.NOT_CONVEX, "p b": Code.NOT_CONVEX}


def test_two_claims_that_wait_for_each_other_cost_the_later_partitioner():
    text = "a1 b1 a2<b1 b2<a1"
    found = run(text, claim("p", "a1 a2"), claim("q", "b1 b2"))
    assert taken(found) == ["p: a1 a2"]
    assert lost(found) == {"q b1": Code.CYCLE, "q b2": Code.CYCLE}
    assert "b1 -> a2 ~ a1 -> b2" in words(found, "b1")
    found = run(text, claim("p", "a1 a2"), claim("q", "b1 b2"), order=("q", "p"))
    assert taken(found) == ["q: b1 b2"]


def test_a_union_that_is_not_convex_goes_back_to_its_first_claim():
    found = run("a b<a z<a c<b,z", claim("p@x", "a b"), claim("q@x", "b c"))
    assert taken(found) == ["x: a b"]
    assert lost(found) == {"q b": Code.NOT_CONVEX, "q c": Code.NOT_CONVEX}


BRANCHED = "a t/u t/v<t/u f/w c[t|f]<a d<c"


def test_a_control_flow_op_goes_with_all_its_branches():
    found = run(BRANCHED, claim("p", "a c t/u t/v f/w"))
    assert taken(found) == ["p: a t/u t/v f/w c"]
    found = run(BRANCHED, claim("p", "a c t/u f/w"))
    assert taken(found) == []
    assert set(lost(found).values()) == {Code.CONTROL_FLOW}
    assert "lacks t/v" in words(found, "a")


def test_a_divisible_claim_takes_what_it_can_of_branches():
    found = run(BRANCHED, claim("p", "a c d t/u f/w", divisible=True))
    assert taken(found) == ["p: a", "p: t/u", "p: f/w", "p: d"]
    assert lost(found) == {"p c": Code.CONTROL_FLOW}
    found = run(BRANCHED, claim("q", "t/v"), claim("p", "a c d t/u t/v f/w", divisible=True))
    assert taken(found) == ["p: a", "p: t/u", "q: t/v", "p: f/w", "p: d"]
    assert lost(found) == {"p c": Code.OUTBID, "p t/v": Code.OUTBID}


def test_a_claim_over_scopes_without_their_control_flow_op():
    found = run(BRANCHED, claim("p", "t/u f/w"))
    assert lost(found) == {"p t/u": Code.CONTROL_FLOW, "p f/w": Code.CONTROL_FLOW}
    assert "f/w" in words(found, "t/u")


def test_nested_branches():
    text = "o/i/u o/c[o/i] d[o]"
    every = "o/i/u o/c d"
    assert taken(run(text, claim("p", every))) == ["p: " + every]
    assert taken(run(text, claim("p", every, divisible=True))) == ["p: " + every]
    assert "lacks o/i/u" in words(run(text, claim("p", "o/c d")), "d")


def test_connected_backends_get_connected_delegates():
    text = "a b c<a d<b"
    apart = claim("p", "a b c d", divisible=True)
    assert taken(run(text, apart)) == ["p: a b c d"]
    assert taken(run(text, apart, connected=frozenset({"p"}))) == ["p: a c", "p: b d"]
    found = run(text, claim("p", "a b c d"), connected=frozenset({"p"}))
    assert taken(found) == []
    assert "connects a with b" in words(found, "a")


def test_min_ops_does_not_count_getitems_and_gives_both_figures():
    found = run("a g.<a z<g b<z c<b", claim("p", "a g b c", divisible=True), limits={"p": two()})
    assert taken(found) == ["p: b c"]
    assert lost(found) == {"p a": Code.TOO_SMALL, "p g": Code.TOO_SMALL}
    assert words(found, "g") == "the delegate would have 1 op, min_ops of p is 2"


def two() -> Limits:
    return Limits(min_ops=2)


def test_ops_that_fall_to_a_limit_are_offered_to_the_next():
    found = run("a", claim("p", "a"), claim("q", "a"), limits={"p": two()})
    assert taken(found) == ["q: a"]
    assert lost(found) == {"p a": Code.TOO_SMALL}


def test_max_delegates_keeps_the_largest():
    found = run(
        "a y<a b<y c<b z<c d<z",
        claim("p", "a b c d", divisible=True),
        limits={"p": Limits(max_delegates=1)},
    )
    assert taken(found) == ["p: b c"]
    assert lost(found) == {"p a": Code.POLICY, "p d": Code.POLICY}
    assert words(found, "d") == (
        "max_delegates of p is 1: this one has 1 op, the smallest kept has 2"
    )


def test_ids_follow_the_order_of_execution():
    # Branches run when their control-flow op does, after what it reads.
    found = run("t/u a c[t]<a", claim("p", "t/u a", divisible=True))
    assert taken(found) == ["p: a", "p: t/u"]
    assert [d.id for d in found.delegations] == ["d0", "d1"]


def test_claims_that_break_the_contract_are_named():
    with pytest.raises(PluginError, match=r"'p' claims op 'nope'"):
        run("a", claim("p", "nope"))
    with pytest.raises(PluginError, match=r"'p', which is not in the order \(q\)"):
        run("a", claim("p", "a"), order=("q",))
    with pytest.raises(ConfigError, match="'dear' is no mode; known: priority"):
        run("a", claim("p", "a"), mode="dear")


def test_nothing_claimed():
    assert settle(Contest(graph=OpGraph(), claims=(), order=())) == Settlement(delegations=())
