"""The constraint language: each check both ways, and partitioners made of them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from cede.partitioners.rules import (
    Check,
    Rule,
    Ruled,
    Vetoed,
    argument,
    constant,
    divisible,
    dtype,
    produced_by,
    quantized,
    rank,
    same_dtype,
    static_shape,
)
from cede.types import (
    Claim,
    Code,
    GraphInput,
    InputKind,
    Keep,
    Op,
    OpGraph,
    Program,
    Reason,
    Ref,
    Refusal,
    TensorFact,
)

if TYPE_CHECKING:
    from pathlib import Path


def fact(*shape: int | str, dtype: str = "float32") -> TensorFact:
    return TensorFact(shape=shape, dtype=dtype, dim_order=tuple(range(len(shape))))


def op(id: str, target: str, outputs: TensorFact | None = None, **args: Any) -> Op:
    refs = [v for value in args.values() for v in (value if isinstance(value, tuple) else (value,))]
    return Op(
        id=id,
        target=target,
        args=tuple(args.items()),
        inputs=tuple(dict.fromkeys(ref.id for ref in refs if isinstance(ref, Ref))),
        outputs=(outputs or fact(2, 8),),
    )


X, W, B, N = Ref("x"), Ref("w"), Ref("b"), Ref("i")
GRAPH = OpGraph(
    inputs=(
        GraphInput(id="x", kind=InputKind.USER, tensor=fact(2, 8)),
        GraphInput(id="d", kind=InputKind.USER, tensor=fact("s0", 8)),
        GraphInput(id="i", kind=InputKind.USER, tensor=fact(2, 8, dtype="int64")),
        GraphInput(id="n", kind=InputKind.USER),
        GraphInput(id="w", kind=InputKind.PARAMETER, target="w", tensor=fact(8, 6)),
        GraphInput(id="b", kind=InputKind.BUFFER, target="b", tensor=fact(8, 8), mutated=True),
    ),
    ops=(
        op("plain", "aten.mm.default", self=X, mat2=W, flag=True, count=1, bias=None),
        op("ints", "aten.mm.default", self=X, mat2=N),
        op("state", "aten.mm.default", self=X, mat2=B),
        op("wide", "aten.relu.default", self=Ref("d"), outputs=fact("s0", 8)),
        op("made", "aten.mm.default", self=X, mat2=Ref("wide")),
        op("cast", "aten.to.dtype", self=X, outputs=fact(2, 8, dtype="int64")),
        op("cat", "aten.cat.default", tensors=(X, N)),
        op("dq", "q.dequantize_per_tensor.default", input=N, quant_min=-128, quant_max=127),
        op("user", "aten.mm.default", self=Ref("dq"), mat2=W),
        Op(id="cond", target="cond", args=(("arg0", X), ("arg1", "cond/t")), inputs=("x",)),
        op("scalar", "aten.add.Tensor", self=Ref("n"), other=2),
    ),
)  # fmt: skip


@pytest.mark.parametrize(
    ("check", "passes", "fails", "code", "detail"),
    [
        (dtype("float32"), "plain", "ints", Code.DTYPE, "mat2 is int64, not one of float32"),
        (dtype("float32", "int64"), "cast", "", None, ""),
        (dtype("float32"), "cond", "cast", Code.DTYPE, "output 0 is int64, not one of float32"),
        (dtype("float32"), "scalar", "cat", Code.DTYPE, "tensors is int64, not one of float32"),
        (same_dtype(), "plain", "cat", Code.DTYPE, "mixed dtypes: float32, int64"),
        (rank("self", 2), "plain", "", None, ""),
        (rank("self", 3), "cond", "plain", Code.SHAPE, "self is float32[2,8] of rank 2, not 3"),
        (rank("self", 3, 4), "cat", "plain", Code.SHAPE,
         "self is float32[2,8] of rank 2, not 3 to 4"),
        (rank("self", 1, 2), "plain", "", None, ""),
        (divisible("mat2", 1, 4), "state", "plain", Code.SHAPE,
         "size 6 of mat2 in dim 1 is no multiple of 4"),
        (divisible("mat2", -1, 3), "plain", "state", Code.SHAPE,
         "size 8 of mat2 in dim -1 is no multiple of 3"),
        (divisible("self", 0, 2), "plain", "wide", Code.SHAPE,
         "size s0 of self in dim 0 is no multiple of 2"),
        (divisible("self", 5, 2), "plain", "", None, ""),
        (static_shape(), "plain", "wide", Code.DYNAMIC_SHAPE, "self is float32[s0,8]"),
        (argument("count", 1, 2), "plain", "", None, ""),
        (argument("count", 2, 3), "ints", "plain", Code.ARGUMENT, "count is 1, not one of 2, 3"),
        (argument("count", True), "ints", "plain", Code.ARGUMENT, "count is 1, not one of True"),
        (argument("flag", 1), "ints", "plain", Code.ARGUMENT, "flag is True, not one of 1"),
        (argument("bias", None), "plain", "", None, ""),
        (constant("mat2"), "plain", "made", Code.NOT_CONSTANT,
         "mat2 is computed: it comes from aten.relu.default"),
        (constant("mat2"), "user", "state", Code.NOT_CONSTANT,
         "mat2 is written by the program: it is the mutated buffer b"),
        (constant("mat2"), "cat", "ints", Code.NOT_CONSTANT, "mat2 is given by the caller: i"),
        (constant("bias"), "plain", "", None, ""),
        (produced_by("self", "q.dequantize_per_tensor.default", "q.other"), "user", "plain",
         Code.QUANT_SCHEME,
         "self doesn't come from q.dequantize_per_tensor.default or q.other"),
        (quantized("self", quant_min=-128, quant_max=127), "user", "plain", Code.QUANT_SCHEME,
         "self isn't quantized"),
        (quantized("self", quant_min=-127), "", "user", Code.QUANT_SCHEME,
         "self is quantized with quant_min -128, not -127"),
        (quantized("self", axis=0), "", "user", Code.QUANT_SCHEME,
         "self is quantized without axis"),
    ],
)  # fmt: skip
def test_each_check_both_ways(
    check: Check, passes: str, fails: str, code: Code | None, detail: str
) -> None:
    if passes:
        assert check(GRAPH.op(passes), GRAPH) is None
    if fails:
        assert check(GRAPH.op(fails), GRAPH) == Reason(code=code, detail=detail)  # type: ignore[arg-type]


@pytest.mark.parametrize("each", GRAPH.ops, ids=lambda given: given.id)
def test_every_check_answers_about_every_op(each: Op) -> None:
    for check in (
        dtype("float32"), same_dtype(), rank("self", 2), divisible("self", 0, 2), static_shape(),
        argument("self", 1), constant("self"), produced_by("self", "x"), quantized("self"),
    ):  # fmt: skip
        found = check(each, GRAPH)
        assert found is None or found.detail


def test_rules_are_tried_in_order_and_the_last_reason_stands() -> None:
    ruled = Ruled(
        name="mine",
        backend="metal",
        rules=(
            Rule(ops=("aten.mm.*",), checks=(constant("mat2"), dtype("float32")), note="dense"),
            Rule(ops=("aten.mm.default", "aten.cat*"), checks=(dtype("int64"),)),
            Rule(ops=("*dequantize*",)),
        ),
    )
    assert ruled.keeps(Program(graph=GRAPH, exported=None, options=None)) == Keep()
    answers = list(ruled.claim(Program(graph=GRAPH, exported=None, options=None)))
    assert len(answers) == len(GRAPH.ops)
    claims = {op: a for a in answers if isinstance(a, Claim) for op in a.ops}
    refusals = {a.op: a.reason for a in answers if isinstance(a, Refusal)}
    assert set(claims) == {"plain", "dq", "user"}
    assert claims["plain"] == Claim(
        partitioner="mine", backend="metal", ops=frozenset({"plain"}), note="dense"
    )
    assert refusals["state"] == Reason(code=Code.DTYPE, detail="self is float32, not one of int64")
    assert refusals["cond"] == Reason(code=Code.UNKNOWN_OP, detail="no rule for cond")


class Inner:
    """Keeps two ops, claims two pairs and refuses the rest."""

    name, backend = "mine", "metal"

    def __init__(self, accepts: Any = None) -> None:
        self.accepts = accepts

    def keeps(self, program: Program) -> Keep:
        return Keep(ops=("linear",), accepts=self.accepts)

    def claim(self, program: Program) -> Any:
        reason = Reason(code=Code.SHAPE, detail="too long")
        yield Claim(partitioner="mine", backend="metal", ops=frozenset({"made", "wide"}))
        yield Claim(partitioner="mine", backend="metal", ops=frozenset({"user", "dq"}))
        yield Refusal(partitioner="mine", op="cat", reason=reason)


def test_a_vetoed_claim_becomes_a_refusal_of_each_of_its_ops() -> None:
    veto = Reason(code=Code.QUANT_SCHEME, detail="loses the scale")
    vetoed = Vetoed(
        inner=Inner(),
        vetoes=(
            lambda claim, graph: None,
            lambda claim, graph: veto if "dq" in claim.ops else None,
        ),
    )
    assert (vetoed.name, vetoed.backend) == ("mine", "metal")
    first, *rest, last = vetoed.claim(Program(graph=GRAPH, exported=None, options=None))
    assert isinstance(first, Claim)
    assert first.ops == {"made", "wide"}
    assert rest == [
        Refusal(partitioner="mine", op="dq", reason=veto),
        Refusal(partitioner="mine", op="user", reason=veto),
    ]
    assert isinstance(last, Refusal)
    assert last.reason.detail == "too long"


def test_vetoed_keeps() -> None:
    program = Program(graph=GRAPH, exported=None, options=None)
    assert Vetoed(inner=Inner(), vetoes=()).keeps(program) == Keep(ops=("linear",))
    for accepts, wanted in ((None, [1, 3]), (lambda node: node < 3, [1])):
        keep = Vetoed(
            inner=Inner(accepts), vetoes=(), keep_unless=lambda node: node % 2 == 0
        ).keeps(program)
        assert keep.ops == ("linear",)
        assert keep.accepts is not None
        assert [node for node in (1, 2, 3, 4) if keep.accepts(node)] == wanted


PLUGIN = """
import cede
from cede.partitioners.rules import Rule, Ruled, argument, dtype, static_shape

def kept():
    import torch
    return (torch.ops.aten.linear.default,)

@cede.hookimpl
def cede_partitioners():
    yield Ruled(name="mine", backend="reference", keep=kept, rules=(
        Rule(ops=("aten.linear.default",), checks=(dtype("float32"), static_shape()), note="dense"),
        Rule(ops=("aten.add.*",), checks=(argument("alpha", 1),)),
    ))
"""


def test_ruled_end_to_end(tmp_path: Path) -> None:
    import torch
    from torch import nn

    from cede import api

    class Net(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.line = nn.Linear(4, 4)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            y = torch.add(self.line(x), x)
            return torch.add(y, torch.tanh(y), alpha=2)

    plugin = tmp_path / "mine.py"
    plugin.write_text(PLUGIN)
    config = api.load_config(
        None, [f"plugins.files=[{plugin}]", "backends=[reference]", "partitioners=[mine]"]
    )
    model, x = Net().eval(), torch.randn(2, 4)
    lowered = api.lower(torch.export.export(model, (x,)), config=config)
    taken = {lowered.graph.op(op).target for op in lowered.plan.delegation_of()}
    assert taken == {"aten.linear.default", "aten.add.Tensor"}
    reasons = {lowered.graph.op(r.op).target: str(r.reason) for r in lowered.plan.refusals}
    assert reasons == {
        "aten.tanh.default": "unknown-op: no rule for aten.tanh.default",
        "aten.add.Tensor": "argument: alpha is 2, not one of 1",
    }
    got = api.run(lowered.buffer, [x], config=config).outputs[0]
    torch.testing.assert_close(got, model(x).detach())
