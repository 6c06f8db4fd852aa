"""`cede.fx.CapabilityPartitioner` beside the class of torch.fx: what holds for both."""

from __future__ import annotations

import inspect
import operator
import random
import re
from pathlib import Path
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.unit.fx_graphs import (
    Made,
    Root,
    Supports,
    graphs,
    ladder,
    legal,
    mix,
    names,
    nested,
    pair,
    total,
)
from torch.fx.passes.infra.partitioner import CapabilityBasedPartitioner

from cede.fx import CapabilityPartitioner

BOTH = pytest.mark.parametrize("kind", [CapabilityBasedPartitioner, CapabilityPartitioner])


def proposed(kind: type, module: torch.fx.GraphModule, *supported: str, **options: Any) -> list:
    return kind(module, Supports(*supported), **options).propose_partitions()


def chain(*functions: Any) -> torch.fx.GraphModule:
    """x through these functions, one after the other; their names are n0, n1, ..."""
    graph = torch.fx.Graph()
    last = graph.placeholder("x")
    for i, function in enumerate(functions):
        last = graph.create_node("call_function", function, (last,), name=f"n{i}")
    graph.output(last)
    return torch.fx.GraphModule(Root(), graph)


# What holds for any graph


def follows_its_producer(node: torch.fx.Node) -> bool:
    return node.target is operator.getitem and all(
        user.target is operator.getitem for user in node.args[0].users
    )


def covered(module: torch.fx.GraphModule, supported: set[str]) -> set[str]:
    taken: set[str] = set()
    for node in module.graph.nodes:
        if (node.args[0].name in taken) if follows_its_producer(node) else node.name in supported:
            taken.add(node.name)
    return taken


@BOTH
@given(made=graphs())
@settings(max_examples=150, deadline=None)
def test_every_supported_node_in_one_legal_partition(kind: type, made: Made) -> None:
    module, supported = made
    found = proposed(kind, module, *supported, allows_single_node_partition=True)
    assert set().union(*names(found)) == covered(module, supported)
    assert sum(map(len, names(found))) == len(covered(module, supported))
    assert legal(module, found)
    assert len({one.id for one in found}) == len(found)


@BOTH
@given(made=graphs(), alone=st.booleans())
@settings(max_examples=60, deadline=None)
def test_the_fused_module_computes_the_same(kind: type, made: Made, alone: bool) -> None:
    module, supported = made
    x = torch.linspace(-2, 2, 3)
    wanted = module(x)
    asked = kind(module, Supports(*supported), allows_single_node_partition=alone)
    count = len(asked.propose_partitions())
    fused = asked.partition_and_fuse()
    calls = [node for node in fused.graph.nodes if str(node.target).startswith("fused_")]
    assert len(calls) == count
    torch.testing.assert_close(fused(x), wanted)


@given(made=graphs(largest=30))
@settings(max_examples=200, deadline=None)
def test_never_more_partitions_than_torch_fx(made: Made) -> None:
    module, supported = made
    theirs, ours = (
        proposed(kind, module, *supported, allows_single_node_partition=True)
        for kind in (CapabilityBasedPartitioner, CapabilityPartitioner)
    )
    assert len(ours) <= len(theirs)


@given(made=graphs(), skip=st.booleans())
@settings(max_examples=60, deadline=None)
def test_nodes_stand_in_the_order_of_the_graph(made: Made, skip: bool) -> None:
    module, supported = made
    order = {node: i for i, node in enumerate(reversed(module.graph.nodes))}
    for one in proposed(CapabilityPartitioner, module, *supported):
        assert list(one.nodes) == sorted(one.nodes, key=order.__getitem__, reverse=True)
        assert one.nodes == {node: order[node] for node in one.nodes}


@given(made=graphs(largest=30))
@settings(max_examples=150, deadline=None)
def test_no_partition_of_a_single_node(made: Made) -> None:
    module, supported = made
    found = proposed(CapabilityPartitioner, module, *supported)
    assert legal(module, found)
    computing = [{node for node in one.nodes if calls(node)} for one in found]
    assert all(len(own) > 1 for own in computing)
    assert set().union(*names(found)) <= covered(module, supported)
    whole = proposed(CapabilityPartitioner, module, *supported, allows_single_node_partition=True)
    assert len(found) <= len(whole)


def calls(node: torch.fx.Node) -> bool:
    return node.op == "call_function" and node.target is not operator.getitem


def test_fewer_nodes_are_left_alone_than_with_torch_fx() -> None:
    chance, worse, better = random.Random(5), 0, 0
    for _ in range(300):
        size, near = chance.randrange(4, 50), chance.choice((3, 6, 20))
        edges = [
            (p, i)
            for i in range(size)
            for p in chance.sample(range(max(0, i - near), i), min(i, chance.choice((0, 1, 2, 3))))
        ]
        left = chance.choice((0.1, 0.3, 0.5, 0.7))
        supported = {f"n{i}" for i in range(size) if chance.random() > left}
        module = ladder(*edges, size=size)[0]
        theirs, ours = (
            sum(one.size() for one in proposed(kind, module, *supported))
            for kind in (CapabilityBasedPartitioner, CapabilityPartitioner)
        )
        worse += ours < theirs
        better += ours > theirs
    assert worse <= 3
    assert better >= 30


# Cases


@BOTH
def test_a_partition_ends_where_a_node_is_not_supported(kind: type) -> None:
    module = chain(mix, mix, mix, mix, mix)
    found = proposed(kind, module, "n0", "n1", "n3", "n4")
    assert names(found) == [{"n3", "n4"}, {"n0", "n1"}]  # the last one first


@BOTH
def test_unconnected_nodes_share_a_partition(kind: type) -> None:
    graph = torch.fx.Graph()
    x, y = graph.placeholder("x"), graph.placeholder("y")
    both = [graph.create_node("call_function", mix, (x,), name=f"{x}_mixed") for x in (x, y)]
    graph.output(tuple(both))
    module = torch.fx.GraphModule(Root(), graph)
    assert names(proposed(kind, module, "x_mixed", "y_mixed")) == [{"x_mixed", "y_mixed"}]
    apart = proposed(
        kind, module, "x_mixed", "y_mixed",
        allows_single_node_partition=True, skip_horizontal_fusion=True,
    )  # fmt: skip
    assert sorted(map(sorted, names(apart))) == [["x_mixed"], ["y_mixed"]]


@BOTH
def test_a_single_node_is_left_unless_allowed(kind: type) -> None:
    module = chain(mix, torch.neg, mix)
    assert proposed(kind, module, "n1") == []
    assert names(proposed(kind, module, "n1", allows_single_node_partition=True)) == [{"n1"}]
    allowed = {"allowed_single_node_partition_ops": ["torch.neg"]}
    assert names(proposed(kind, module, "n1", **allowed)) == [{"n1"}]
    assert proposed(kind, module, "n2", **allowed) == []


@BOTH
def test_nodes_that_do_not_compute_do_not_count(kind: type) -> None:
    module = chain(mix, torch.neg, torch.neg, mix, mix)
    assert names(proposed(kind, module, "n0", "n1")) == [{"n0", "n1"}]
    assert proposed(kind, module, "n0", "n1", "n2", non_compute_ops=["torch.neg"]) == []
    assert proposed(kind, chain(mix, torch.ops.aten.view), "n0", "n1") == []


@BOTH
def test_modules_do_not_count_as_computing(kind: type) -> None:
    graph = torch.fx.Graph()
    first = graph.call_module("act", (graph.placeholder("x"),))
    graph.output(graph.call_module("act", (first,)))
    module = torch.fx.GraphModule(Root(), graph)
    assert proposed(kind, module, "act", "act_1") == []
    found = proposed(kind, module, "act", "act_1", allows_single_node_partition=True)
    assert names(found) == [{"act", "act_1"}]


def picking(last: Any = mix) -> torch.fx.GraphModule:
    graph = torch.fx.Graph()
    made = graph.call_function(nested, (graph.placeholder("x"),))
    outer = [graph.call_function(operator.getitem, (made, i)) for i in range(2)]
    inner = [graph.call_function(operator.getitem, (outer[0], i)) for i in range(2)]
    graph.output(graph.call_function(last, (*inner, outer[1])))
    return torch.fx.GraphModule(Root(), graph)


@BOTH
def test_getitems_go_with_their_producer(kind: type) -> None:
    picks = {"getitem", "getitem_1", "getitem_2", "getitem_3"}
    alone = {"allows_single_node_partition": True}
    assert names(proposed(kind, picking(), "nested", **alone)) == [{"nested", *picks}]
    assert names(proposed(kind, picking(), *picks, "mix", **alone)) == [{"mix"}]
    assert proposed(kind, picking(), *picks, **alone) == []
    assert proposed(kind, picking(), "nested", *picks) == [], "getitem doesn't compute"


@BOTH
def test_a_getitem_of_what_is_also_used_whole_is_a_node_as_any(kind: type) -> None:
    graph = torch.fx.Graph()
    made = graph.call_function(pair, (graph.placeholder("x"),))
    first = graph.call_function(operator.getitem, (made, 0))
    graph.output((graph.call_function(mix, (first,)), graph.call_function(total, (made,))))
    module = torch.fx.GraphModule(Root(), graph)
    found = proposed(kind, module, "getitem", "mix", allows_single_node_partition=True)
    assert names(found) == [{"getitem", "mix"}]


@BOTH
def test_values_that_the_program_returns_leave_the_partition(kind: type) -> None:
    graph = torch.fx.Graph()
    nodes = [graph.placeholder("x")]
    for _ in range(3):
        nodes.append(graph.call_function(mix, (nodes[-1],)))
    graph.output((nodes[1], {"both": [nodes[3], nodes[1]]}))
    module = torch.fx.GraphModule(Root(), graph)
    x = torch.linspace(-2, 2, 3)
    wanted = module(x)
    fused = kind(module, Supports("mix", "mix_1", "mix_2")).partition_and_fuse("part_")
    assert [n.target for n in fused.graph.nodes if n.op == "call_module"] == ["part_0"]
    torch.testing.assert_close(fused(x), wanted)


@BOTH
def test_nothing_supported(kind: type) -> None:
    assert proposed(kind, chain(mix, mix), allows_single_node_partition=True) == []


@BOTH
def test_bookends_are_removed(kind: type) -> None:
    module = chain(torch.neg, mix, torch.neg, mix, torch.neg)
    asked = kind(module, Supports("n0", "n1", "n2", "n3", "n4"), non_compute_ops=["torch.neg"])
    found = asked.propose_partitions()
    assert names(found) == [{"n0", "n1", "n2", "n3", "n4"}]
    asked.remove_bookend_non_compute_ops(found)
    assert names(found) == [{"n1", "n2", "n3"}]


# What differs from the class of torch.fx


def test_it_has_the_same_constructor() -> None:
    theirs, ours = (
        [(p.name, p.default, p.kind) for p in inspect.signature(kind).parameters.values()]
        for kind in (CapabilityBasedPartitioner, CapabilityPartitioner)
    )
    assert ours == theirs


@BOTH
def test_it_has_the_same_attributes(kind: type) -> None:
    asked = CapabilityBasedPartitioner(chain(mix), Supports(), non_compute_ops=("a",))
    ours = kind(asked.graph_module, asked.operator_support, non_compute_ops=("a",))
    for name in set(vars(asked)) - {"dependency_viewer"}:
        assert getattr(ours, name) == getattr(asked, name)
    node = next(iter(asked.graph_module.graph.nodes))
    viewers = ours.dependency_viewer, asked.dependency_viewer
    assert len({frozenset(viewer.downstreams_of(node)) for viewer in viewers}) == 1


def test_each_node_is_asked_about_once_from_the_end() -> None:
    module, support = chain(mix, mix), Supports("n1")
    asked = CapabilityPartitioner(module, support)
    asked.propose_partitions()
    assert support.asked == ["output", "n1", "n0", "x"]
    assert "dependency_viewer" not in vars(asked)


def test_a_node_that_is_free_keeps_another_company() -> None:
    # n1 is left between n0 and n2; n3 and n4 may run before it or after it
    module, _ = ladder((0, 1), (1, 2), size=5)
    found = proposed(CapabilityPartitioner, module, "n0", "n2", "n3", "n4")
    assert names(found) == [{"n2", "n4"}, {"n0", "n3"}]
    assert names(proposed(CapabilityPartitioner, module, "n0", "n2", "n4")) == [{"n0", "n4"}]


def test_getitems_move_with_their_producer() -> None:
    graph = torch.fx.Graph()
    x = graph.placeholder("x")
    last = x
    for i in range(3):
        last = graph.create_node("call_function", mix, (last,), name=f"n{i}")
    other = graph.create_node("call_function", mix, (x,), name="n3")
    made = graph.call_function(pair, (x,))
    first = graph.call_function(operator.getitem, (made, 0))
    graph.output((last, other, first))
    module = torch.fx.GraphModule(Root(), graph)
    found = proposed(CapabilityPartitioner, module, "n0", "n2", "n3", "pair")
    assert names(found) == [{"n2", "pair", "getitem"}, {"n0", "n3"}]
    assert legal(module, found)


def test_getitems_that_come_along_connect() -> None:
    found = proposed(CapabilityPartitioner, picking(), "nested", "mix")
    assert [len(one) for one in names(found)] == [6]
    assert len(proposed(CapabilityBasedPartitioner, picking(), "nested", "mix")) == 0


def test_a_computed_index_is_no_pick() -> None:
    graph = torch.fx.Graph()
    made = graph.call_function(pair, (graph.placeholder("x"),))
    place = graph.call_function(len, (graph.call_function(operator.getitem, (made, 0)),))
    graph.output(graph.call_function(operator.getitem, (made, place)))
    module = torch.fx.GraphModule(Root(), graph)
    found = proposed(
        CapabilityPartitioner, module, "pair", "getitem_1", allows_single_node_partition=True
    )
    assert sorted(map(sorted, names(found))) == [["getitem", "pair"], ["getitem_1"]]
    assert legal(module, found)


def test_a_long_chain_needs_no_recursion() -> None:
    module = chain(*[mix] * 20000)
    wanted = {f"n{i}" for i in range(20000) if i % 10}
    found = proposed(CapabilityPartitioner, module, *wanted)
    assert len(found) == 2000
    assert set().union(*names(found)) == wanted


def test_in_the_place_of_torch_fx(monkeypatch: pytest.MonkeyPatch) -> None:
    from executorch.exir.backend.canonical_partitioners import pattern_op_partitioner as user

    module = chain(mix, mix, torch.neg, mix, mix)
    support = Supports("n0", "n1", "n3", "n4")
    theirs = user.generate_partitions_from_list_of_nodes(module, op_support=support)
    monkeypatch.setattr(user, "CapabilityBasedPartitioner", CapabilityPartitioner)
    ours = user.generate_partitions_from_list_of_nodes(module, op_support=support)
    assert names(ours) == names(theirs) == [{"n3", "n4"}, {"n0", "n1"}]


def test_the_page_runs() -> None:
    page = (Path(__file__).parents[2] / "docs" / "fx.md").read_text()
    (block,) = re.findall(r"```python\n(.*?)```", page, re.DOTALL)
    exec(compile(block, "fx.md", "exec"), {})
