"""Which ops a selector selects, and what is said where it selects none."""

from __future__ import annotations

from dataclasses import replace

import pytest

from cede.config import SelectorConfig
from cede.policy import chosen, nearest
from cede.types import Op, OpGraph, TensorFact


def op(
    id: str, target: str = "aten.add.Tensor", *inputs: str, dtype: str = "float32", **more
) -> Op:
    fact = TensorFact(shape=(2,), dtype=dtype)
    return Op(id=id, target=target, inputs=inputs or ("x",), outputs=(fact,), **more)


GRAPH = OpGraph(
    ops=(
        op("linear", "aten.linear.default", module="layers.0.attn.q"),
        op("linear_1", "aten.linear.default", "linear", module="layers.1.attn"),
        op("add", "aten.add.Tensor", "linear_1", module="layers.1.mlp", dtype="int64"),
        op("topk", "aten.topk.default", "add", module="head", layer="top.k"),
        op("getitem", "getitem", "topk", dtype="float32", module="head"),
        op("pick", "getitem", "getitem"),
        op("relu", "aten.relu.default", "getitem"),
    )
)


@pytest.mark.parametrize(
    ("text", "ids"),
    [
        ("op:aten.linear", "linear linear_1"),
        ("op:aten.linear.default", "linear linear_1"),
        ("op:aten.l*", "linear linear_1"),
        ("op:linear", ""),
        ("name:linear", "linear"),
        ("name:linear_?", "linear_1"),
        ("regex:near$", "linear"),
        ("regex:^(add|relu)$", "add relu"),
        ("module:layers", "linear linear_1 add"),
        ("module:layers.*.attn", "linear linear_1"),
        ("module:layers.*", "linear linear_1 add"),
        ("module:*.attn", ""),
        ("module:**.attn", "linear linear_1"),
        ("module:**.q", "linear"),
        ("module:layer", ""),
        ("layer:top", "topk getitem pick"),
        ("layer:k", ""),
        ("dtype:int*", "add"),
        ("op:aten.linear,module:layers.1", "linear_1"),
        ("op:aten.linear,dtype:int64", ""),
        ("op:aten.topk", "topk getitem pick"),
        ("op:getitem", ""),
        ("module:head", "topk getitem pick"),
        ("op:aten.add,backend:b", "add"),
    ],
)
def test_what_is_selected(text: str, ids: str) -> None:
    selector = SelectorConfig(**SelectorConfig.read(text))
    assert chosen(selector, GRAPH) == tuple(ids.split())
    assert str(selector) == text


def test_an_operator_is_also_the_one_that_it_was_decomposed_from() -> None:
    part = replace(GRAPH.op("add"), origin="aten.group_norm.default")
    graph = OpGraph(ops=(part,))
    for pattern in ("aten.group_norm", "aten.group_norm.default", "aten.add", "aten.*_norm*"):
        assert chosen(SelectorConfig(op=pattern), graph) == ("add",)
    assert nearest(SelectorConfig(op="aten.grup_norm"), graph).endswith("mean aten.group_norm?")


def test_a_getitem_without_a_producer_stands_for_itself() -> None:
    alone = replace(GRAPH.op("getitem"), inputs=("x",))
    assert chosen(SelectorConfig(op="getitem"), OpGraph(ops=(alone,))) == ("getitem",)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("op:aten.linera", "no op is like 'aten.linera'; did you mean aten.linear?"),
        ("module:layers.0.atn", "no module is like 'layers.0.atn'; did you mean layers.0.attn?"),
        ("layer:topp", "no layer is like 'topp'; did you mean top?"),
        ("dtype:flaot32", "no dtype is like 'flaot32'; did you mean float32?"),
        ("name:reul", "no name is like 'reul'; did you mean relu?"),
        ("regex:q+", "no id has 'q+' in it"),
        ("op:aten.add,module:zzz", "no module is like 'zzz'; known: head, layers, layers.0, "),
        ("op:aten.add,dtype:float32", "each of its fields matches ops, and no op matches all"),
    ],
)
def test_the_field_that_matches_nothing_is_named_with_the_nearest(text: str, said: str) -> None:
    assert nearest(SelectorConfig(**SelectorConfig.read(text)), GRAPH).startswith(said)
