"""`cede.fx.GroupPartitioner` beside the class of ExecuTorch."""

from __future__ import annotations

import inspect
import operator
from typing import TYPE_CHECKING, Any

import pytest
from executorch.exir.backend.canonical_partitioners.group_partitioner import GroupBasedPartitioner
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.unit.fx_graphs import Made, Supports, graphs, ladder, legal, names, pair

from cede.fx import GroupPartitioner

if TYPE_CHECKING:
    import torch

BOTH = pytest.mark.parametrize("kind", [GroupBasedPartitioner, GroupPartitioner])


def proposed(kind: type, module: torch.fx.GraphModule, *supported: str, groups: Any = None) -> list:
    asked = kind(
        module, Supports(*supported), allows_single_node_partition=True, node_groups=groups
    )
    return asked.propose_partitions()


@st.composite
def grouped(draw: st.DrawFn) -> tuple[Made, list[list[torch.fx.Node]]]:
    made = draw(graphs())
    nodes = [node for node in made[0].graph.nodes if node.op == "call_function"]
    number = {node: draw(st.integers(-2, 2)) for node in nodes}
    groups = [[node for node in nodes if number[node] == i] for i in range(3)]
    return made, [group for group in groups if group]


@given(made=grouped())
@settings(max_examples=300, deadline=None)
def test_legal_whole_and_no_more_than_executorch(made: Any) -> None:
    (module, supported), groups = made
    ours = proposed(GroupPartitioner, module, *supported, groups=groups)
    assert legal(module, ours)
    assert set().union(*names(ours)) == supported
    theirs = proposed(GroupBasedPartitioner, module, *supported, groups=groups)
    if legal(module, theirs):  # ExecuTorch keeps groups that make a cycle
        assert len(ours) <= len(theirs)


@given(made=grouped())
@settings(max_examples=100, deadline=None)
def test_groups_stay_together_where_single_nodes_are_left(made: Any) -> None:
    (module, supported), groups = made
    whole = proposed(GroupPartitioner, module, *supported, groups=groups)
    asked = GroupPartitioner(module, Supports(*supported), node_groups=groups)
    found = asked.propose_partitions()
    assert legal(module, found)
    for group in groups:
        own = {node.name for node in group} & supported
        if any(own <= each for each in names(whole)):
            assert any(own <= each for each in names(found)) or not any(
                own & each for each in names(found)
            )


@given(made=graphs())
@settings(max_examples=100, deadline=None)
def test_without_groups_no_more_than_executorch(made: Made) -> None:
    module, supported = made
    theirs, ours = (
        proposed(kind, module, *supported) for kind in (GroupBasedPartitioner, GroupPartitioner)
    )
    assert set().union(*names(ours)) == set().union(*names(theirs)) == supported
    assert len(ours) <= len(theirs)


@BOTH
def test_a_group_stays_together(kind: type) -> None:
    # n0 -> n1 (left), n2 -> n3: without groups n2 may stand with n0 or with n3
    module, n = ladder((0, 1), (1, 3), (2, 3), size=4)
    for other in (0, 3):
        found = proposed(kind, module, "n0", "n2", "n3", groups=[[n[2], n[other]]])
        assert len(found) == 2
        assert {"n2", f"n{other}"} in names(found)


def test_a_producer_stays_where_its_getitem_has_a_group() -> None:
    # n2 is alone; pair could join it, with its getitem
    module, n = ladder((0, 1), (1, 2), size=4)
    graph = module.graph
    with graph.inserting_before(graph.output_node()):
        made = graph.create_node("call_function", pair, n[0].args, name="pair")
        first = graph.create_node("call_function", operator.getitem, (made, 0), name="first")
    graph.output_node().args = ((*n, first),)
    support = Supports("n0", "n2", "n3", "pair", "first")
    free = GroupPartitioner(module, support).propose_partitions()
    assert names(free) == [{"n2", "pair", "first"}, {"n0", "n3"}]
    bound = GroupPartitioner(module, support, node_groups=[[n[3], first]]).propose_partitions()
    assert names(bound) == [{"n0", "n3", "pair", "first"}]


@BOTH
def test_what_is_not_supported_leaves_its_group(kind: type) -> None:
    module, n = ladder((0, 1), (1, 2), size=3)
    assert names(proposed(kind, module, "n0", groups=[[n[0], n[1]]])) == [{"n0"}]


def test_a_group_around_a_node_that_is_left_is_divided() -> None:
    module, n = ladder((0, 1), (1, 2), size=3)
    groups = [[n[0], n[2]]]
    assert names(proposed(GroupPartitioner, module, "n0", "n2", groups=groups)) == [{"n2"}, {"n0"}]
    theirs = proposed(GroupBasedPartitioner, module, "n0", "n2", groups=groups)
    assert not legal(module, theirs), "ExecuTorch divides it too now"


@BOTH
def test_a_node_in_two_groups(kind: type) -> None:
    module, n = ladder(size=2)
    with pytest.raises(ValueError, match=r"n1.*groups"):
        kind(module, Supports(), node_groups=[[n[0], n[1]], [n[1]]])


def test_it_has_the_same_constructor() -> None:
    theirs, ours = (
        [(p.name, p.default, p.kind) for p in inspect.signature(kind).parameters.values()]
        for kind in (GroupBasedPartitioner, GroupPartitioner)
    )
    assert ours == theirs
