"""What the reference partitioner claims together, and what it refuses."""

from __future__ import annotations

import subprocess
import sys

from cede.backends.reference.plugin import cede_partitioners
from cede.types import Claim, Code, GraphInput, InputKind, NoOptions, Op, OpGraph, Program, Refusal
from cede.types import TensorFact as Fact

T = (Fact(shape=(2,), dtype="float32"),)
N = (Fact(shape=(), dtype="SymInt"),)


def answers(*ops: Op) -> tuple[set[frozenset[str]], dict[str, Refusal]]:
    graph = OpGraph(inputs=(GraphInput(id="x", kind=InputKind.USER, tensor=T[0]),), ops=ops)
    (partitioner,) = cede_partitioners()
    given = list(partitioner.claim(Program(graph=graph, exported=None, options=NoOptions())))
    claims = {answer.ops for answer in given if isinstance(answer, Claim)}
    refusals = {answer.op: answer for answer in given if isinstance(answer, Refusal)}
    answered = [op for claim in claims for op in claim] + list(refusals)
    assert sorted(answered) == sorted(op.id for op in ops)
    return claims, refusals


def test_each_op_alone_and_getitem_with_its_producer() -> None:
    claims, refusals = answers(
        Op(id="relu", target="aten.relu.default", inputs=("x",), outputs=T),
        Op(id="split", target="aten.split_copy.Tensor", inputs=("relu",), outputs=T * 2),
        Op(id="one", target="getitem", inputs=("split",), outputs=T),
        Op(id="two", target="getitem", inputs=("split",), outputs=T),
    )
    assert claims == {frozenset({"relu"}), frozenset({"split", "one", "two"})}
    assert not refusals


def test_control_flow_goes_with_every_op_of_its_branches() -> None:
    inner = {"outputs": T, "scope": "cond/yes"}
    deep = {"outputs": T, "scope": "cond/yes/cond2/no"}
    claims, refusals = answers(
        Op(id="d", target="aten.cos.default", **deep),
        Op(id="c2", target="cond", branches=("cond/yes/cond2/no",), **inner),
        Op(id="b", target="aten.sin.default", **inner),
        Op(id="cond", target="cond", inputs=("x",), outputs=T, branches=("cond/yes",)),
        Op(id="item", target="getitem", inputs=("cond",), outputs=T),
    )
    assert claims == {frozenset({"d", "c2", "b", "cond", "item"})}
    assert not refusals


def test_unregistered_operator_takes_its_group_along_and_is_named() -> None:
    claims, refusals = answers(
        Op(id="b", target="nowhere.magic.default", outputs=T, scope="cond/yes", source="m.py:7"),
        Op(id="cond", target="cond", inputs=("x",), outputs=T, branches=("cond/yes",)),
        Op(id="add", target="aten.add.Tensor", inputs=("cond",), outputs=T),
    )
    assert claims == {frozenset({"add"})}
    assert {refusal.reason.code for refusal in refusals.values()} == {Code.UNKNOWN_OP}
    assert "no operator nowhere.magic.default" in refusals["b"].reason.detail
    assert "goes with b (nowhere.magic.default) at m.py:7" in refusals["cond"].reason.detail


def test_symbolic_numbers_are_left_to_the_program() -> None:
    claims, refusals = answers(
        Op(id="n", target="aten.sym_size.int", inputs=("x",), outputs=N),
        Op(id="half", target="floordiv", inputs=("n",), outputs=N),
        Op(id="full", target="aten.full.default", inputs=("half",), outputs=T),
    )
    assert claims == {frozenset({"full"})}
    assert {refusal.reason.code for refusal in refusals.values()} == {Code.DYNAMIC_SHAPE}


def test_plugin_imports_no_torch() -> None:
    code = (
        "import sys, cede.backends.reference.plugin as plugin;"
        "list(plugin.cede_backends()); list(plugin.cede_partitioners());"
        "assert 'torch' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
