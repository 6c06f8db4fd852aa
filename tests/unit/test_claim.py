"""Whatever a partitioner does, every op has one answer, and who misbehaves is named."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

import pytest

from cede.claim import Answers, ask
from cede.planning import Source
from cede.types import Claim, Code, Keep, Op, OpGraph, Program, Reason, Refusal

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

GRAPH = OpGraph(
    ops=tuple(Op(id=name, target="aten.op", inputs=reads) for name, reads in
              [("a", ("x",)), ("b", ("a",)), ("c", ("b",))])
)  # fmt: skip
SOURCE = Source(name="mine", distribution="cede-mine", version="1.2.3")
WHO = "mine (cede-mine 1.2.3)"


class Mine:
    """A partitioner that answers what a test gives it."""

    name, backend = "mine", "metal"

    def __init__(self, answer: Callable[[Program], Iterable[Any]]) -> None:
        self.claim = answer

    def keeps(self, program: Program) -> Keep:
        return Keep()


def asked(answer: Callable[[Program], Any], seconds: float = 10, **how: Any) -> Answers:
    program = Program(graph=GRAPH, exported=None, options=None)
    answers = ask(Mine(answer), program, source=SOURCE, seconds=seconds, **how)
    claimed = {op for claim in answers.claims for op in claim.ops}
    refused = [refusal.op for refusal in answers.refusals]
    assert sorted([*claimed, *refused]) == ["a", "b", "c"], "one answer an op"
    return answers


def claim(*ops: str, **other: Any) -> Claim:
    given = {"partitioner": "mine", "backend": "metal", "ops": frozenset(ops), **other}
    return Claim(**given)


def refusal(op: str, **other: Any) -> Refusal:
    reason = Reason(code=Code.SHAPE, detail="too long")
    return Refusal(**{"partitioner": "mine", "op": op, "reason": reason, **other})


def codes(answers: Answers) -> dict[str, str]:
    return {row.op: row.reason.code.value for row in answers.refusals}


def test_good_answers_pass_as_they_are() -> None:
    given = [
        claim("a"),
        refusal("c"),
        claim("a", "b", note="pair", specs=(("k", b"v"),), marks=(("a", "k", 1),)),
    ]
    answers = asked(lambda program: given)
    assert answers.claims == (given[0], given[2])
    assert answers.refusals == (given[1],)
    assert answers.warnings == ()


def test_raising_midway_keeps_the_answers_before() -> None:
    def answer(program: Program) -> Iterable[Any]:
        yield claim("a")
        yield refusal("b")
        raise RuntimeError("lost my way\nat length")

    answers = asked(answer)
    assert [c.ops for c in answers.claims] == [frozenset({"a"})]
    assert codes(answers) == {"b": "shape", "c": "plugin-failed"}
    assert answers.refusals[1].reason.detail == f"{WHO}: RuntimeError: lost my way"
    assert answers.warnings == (f"partitioner {WHO} failed: RuntimeError: lost my way",)


@pytest.mark.parametrize("error", [SystemExit(3), AssertionError(), GeneratorExit("x")])
def test_whatever_it_raises_is_held(error: BaseException) -> None:
    def answer(program: Program) -> Iterable[Any]:
        raise error

    answers = asked(answer)
    assert set(codes(answers).values()) == {"plugin-failed"}
    assert type(error).__name__ in answers.warnings[0]


def test_the_users_interrupt_passes() -> None:
    def answer(program: Program) -> Iterable[Any]:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        asked(answer)


def test_hanging() -> None:
    def answer(program: Program) -> Iterable[Any]:
        yield claim("a")
        while True:
            time.sleep(0.01)

    answers = asked(answer, seconds=0.2)
    assert [c.ops for c in answers.claims] == [frozenset({"a"})]
    assert codes(answers) == {"b": "plugin-failed", "c": "plugin-failed"}
    assert "it took longer than 0.2 s" in answers.warnings[0]


def test_a_changed_graph_voids_every_answer() -> None:
    given = [claim("a"), refusal("b"), refusal("c")]
    answers = asked(lambda program: given, changed=lambda: "3 nodes became 4")
    assert answers.claims == ()
    assert set(codes(answers).values()) == {"plugin-failed"}
    assert answers.warnings == (
        f"partitioner {WHO} failed: it changed the graph (3 nodes became 4)",
    )


def test_saying_nothing_about_an_op() -> None:
    answers = asked(lambda program: [claim("a")])
    assert codes(answers) == {"b": "no-answer", "c": "no-answer"}
    assert answers.refusals[0].reason.detail == f"{WHO} said nothing about this op"
    assert answers.warnings == ()


@pytest.mark.parametrize(
    ("wrong", "sentence"),
    [
        ("a", "an answer is a str, not a Claim or Refusal"),
        (None, "an answer is a NoneType"),
        (Reason(code=Code.DTYPE, detail="x"), "an answer is a Reason"),
        (claim("a", "nope"), "a claim names ops that don't exist: nope"),
        (claim("a", partitioner="yours"), "a claim says 'yours' for 'metal' instead of 'mine'"),
        (claim("a", backend="xla"), "a claim says 'mine' for 'xla' instead of 'mine' for 'metal'"),
        (claim(ops=["a"]), "a claim has a list of ops, not a frozenset"),
        (claim(ops="abc"), "a claim has a str of ops, not a frozenset"),
        (claim("a", specs=[("k", b"v")]), "a claim has specs that are no tuple of (str, bytes)"),
        (claim("a", specs=(("k", "v"),)), "a claim has specs that are no tuple of (str, bytes)"),
        (claim("a", marks=(("b", "k", 1),)), "a claim has marks that are no tuple of (op of the"),
        (claim("a", marks=[("a", "k", 1)]), "a claim has marks that are no tuple of (op of the"),
        (refusal("nope"), "a refusal names an op that doesn't exist: nope"),
        (refusal(["a"]), "a refusal names an op that doesn't exist: ['a']"),
        (refusal("a", partitioner="yours"), "a refusal says 'yours' instead of 'mine'"),
        (
            refusal("a", reason=Reason(code=Code.SHAPE, detail=" \n")),
            "the refusal of a gives no reason",
        ),
        (refusal("a", reason="no"), "the refusal of a has no Reason with a Code"),
        (refusal("a", reason=Reason(code="shape", detail="x")), "the refusal of a has no Reason"),
    ],
)
def test_a_wrong_answer_is_told_and_the_others_stand(wrong: Any, sentence: str) -> None:
    answers = asked(lambda program: [claim("b"), wrong, refusal("c")])
    assert [c.ops for c in answers.claims] == [frozenset({"b"})]
    assert codes(answers) == {"a": "no-answer", "c": "shape"}
    (warning,) = answers.warnings
    assert warning.startswith(f"partitioner {WHO}: {sentence}")


def test_no_iterable_at_all() -> None:
    answers = asked(lambda program: 3)
    assert set(codes(answers).values()) == {"plugin-failed"}
    assert "not iterable" in answers.warnings[0]


def test_refused_twice_and_claimed_after_all() -> None:
    other = Reason(code=Code.DTYPE, detail="and int64")
    answers = asked(
        lambda program: [refusal("a"), refusal("a", reason=other), refusal("b"), claim("b", "c")]
    )
    assert [row.reason.detail for row in answers.refusals] == ["too long"]
    assert [c.ops for c in answers.claims] == [frozenset({"b", "c"})]
