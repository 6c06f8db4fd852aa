"""A small graph with every kind of op that a report tells about, and plans for it."""

from __future__ import annotations

from cede.planning import Plan, Source
from cede.types import (
    Code,
    Delegation,
    GraphInput,
    InputKind,
    Loss,
    Op,
    OpGraph,
    Part,
    Reason,
    Ref,
    Refusal,
    TensorFact,
)


def fact(*shape: int | str, dtype: str = "float32", nbytes: int = 16) -> TensorFact:
    return TensorFact(shape=shape, dtype=dtype, nbytes=nbytes)


def weight(id: str, nbytes: int) -> GraphInput:
    return GraphInput(
        id=id,
        kind=InputKind.PARAMETER,
        tensor=fact(2, 2, nbytes=nbytes),
        target=id.removeprefix("p_").replace("_", "."),
    )


def op(id: str, target: str, *inputs: str, **more: object) -> Op:
    values: dict[str, object] = {
        "outputs": (fact(2, 2),),
        "args": tuple((f"a{i}", Ref(used)) for i, used in enumerate(inputs)),
    }
    return Op(id=id, target=target, inputs=inputs, **{**values, **more})  # type: ignore[arg-type]


GRAPH = OpGraph(
    inputs=(
        GraphInput(id="x", kind=InputKind.USER, tensor=fact("s0", 2, nbytes=8)),
        weight("p_fc_weight", 100),
        weight("p_out_weight", 50),
    ),
    ops=(
        op("sym_size_int", "aten.sym_size.int", "x", outputs=(fact(dtype="SymInt", nbytes=0),)),
        op(
            "aten_linear_default", "aten.linear.default", "x", "p_fc_weight",
            module="net.fc", source="net.py:7", layer="ffn.up", flops=1000,
        ),
        op("aten_relu_default", "aten.relu.default", "aten_linear_default", module="net.act"),
        op(
            "aten_topk_default", "aten.topk.default", "aten_relu_default", module="net",
            source="net.py:9", outputs=(fact(2, 1), fact(2, 1, dtype="int64")),
        ),
        op("getitem", "getitem", "aten_topk_default", module="net", outputs=(fact(2, 1),)),
        op(
            "aten_linear_default_1", "aten.linear.default", "getitem", "p_out_weight",
            "p_fc_weight", module="out", flops=3000,
        ),
        op("aten_neg_default", "aten.neg.default", "aten_linear_default_1", module="out"),
    ),
    outputs=("aten_linear_default", "aten_neg_default"),
)  # fmt: skip

NO_KERNEL = Reason(code=Code.UNKNOWN_OP, detail="topk is not taken")
OUTBID = Reason(code=Code.OUTBID, detail="fast has priority")


def plan(**more: object) -> Plan:
    """`fast` takes both linears and relu; `slow` takes neg, loses relu and refuses the rest."""
    others = ["sym_size_int", "aten_topk_default", "getitem"]
    linears = ["aten_linear_default", "aten_linear_default_1"]
    dtype = Reason(code=Code.DTYPE, detail="float32 | only int8 is taken")
    values: dict[str, object] = {
        "fingerprint": "",
        "partitioners": (
            Source(name="fast", distribution="acme", version="1"),
            Source(name="slow", distribution="acme", version="1"),
        ),
        "delegations": (
            Delegation(
                id="d0",
                backend="quick",
                parts=(Part(partitioner="fast", ops=("aten_linear_default", "aten_relu_default")),),
            ),
            Delegation(
                id="d1",
                backend="quick",
                parts=(Part(partitioner="fast", ops=("aten_linear_default_1",)),),
            ),
            Delegation(
                id="d2",
                backend="lazy",
                parts=(Part(partitioner="slow", ops=("aten_neg_default",)),),
            ),
        ),
        "refusals": (
            *(Refusal(partitioner="fast", op=id, reason=NO_KERNEL) for id in others),
            Refusal(partitioner="fast", op="aten_neg_default", reason=NO_KERNEL),
            *(Refusal(partitioner="slow", op=id, reason=dtype) for id in (*others, *linears)),
        ),
        "losses": (
            Loss(partitioner="slow", backend="lazy", op="aten_relu_default", reason=OUTBID),
        ),
        "warnings": ("plugin acme is old",),
    }
    return Plan(**{**values, **more})  # type: ignore[arg-type]
