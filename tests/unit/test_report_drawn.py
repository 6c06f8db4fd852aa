"""The graph of a report for Model Explorer and for Graphviz."""

from __future__ import annotations

import json

import pydot
import pytest

from cede.reporting import Report, make_report

from .report_graphs import GRAPH, plan


@pytest.fixture
def report() -> Report:
    return make_report(plan(), GRAPH)


def test_a_graph_for_model_explorer(report: Report) -> None:
    data = json.loads(report.model_explorer("net.py:make"))
    assert data["label"] == "net.py:make"
    (graph,) = data["graphs"]
    nodes = {node["id"]: node for node in graph["nodes"]}
    assert list(nodes) == ["x", *(op.id for op in GRAPH.ops), "outputs"]
    assert graph["groupNodeAttributes"][""]["verdict"] == report.verdict
    for node in graph["nodes"]:
        assert all(edge["sourceNodeId"] in nodes for edge in node["incomingEdges"])
    linear = nodes["aten_linear_default"]
    assert (linear["label"], linear["namespace"]) == ("aten.linear.default", "net/fc")
    assert [edge["sourceNodeId"] for edge in linear["incomingEdges"]] == ["x"]
    told = {attribute["key"]: attribute["value"] for attribute in linear["attrs"]}
    assert told["delegate"] == "d0 quick"
    assert told["answer of fast"] == "took"
    assert told["reads"] == "fc.weight float32[2,2]"
    assert told["source"] == "net.py:7"
    left = {one["key"]: one["value"] for one in nodes["aten_topk_default"]["attrs"]}
    assert "delegate" not in left
    assert "unknown-op: topk is not taken" in left["reason"]
    shapes = [item["attrs"][0]["value"] for item in nodes["aten_topk_default"]["outputsMetadata"]]
    assert shapes == ["float32[2,1]", "int64[2,1]"]


def test_its_node_data_are_the_delegates(report: Report) -> None:
    (graph,) = json.loads(report.model_explorer())["graphs"]
    data = json.loads(report.model_explorer_data())
    assert list(data) == [graph["id"]]
    results = data[graph["id"]]["results"]
    assert results.keys() <= {node["id"] for node in graph["nodes"]}
    assert {op: given["value"] for op, given in results.items()} == {
        row.op: f"{row.delegate} {row.backend}" if row.delegate else "left"
        for row in report.rows
        if row.delegate or not row.bookkeeping
    }
    colours = {given["value"]: given["bgColor"] for given in results.values()}
    assert len(set(colours.values())) == len(colours) == 4


def test_dot_is_read_by_another_parser(report: Report) -> None:
    (graph,) = pydot.graph_from_dot_data(report.dot('a "net"\\'))
    clusters = {one.get_label().strip('"'): one for one in graph.get_subgraphs()}
    assert list(clusters) == ["d0 quick", "d1 quick", "d2 lazy"]
    names = [node.get_name().strip('"') for node in clusters["d0 quick"].get_nodes()]
    assert names == [row.op for row in report.rows if row.delegate == "d0"]
    alone = {node.get_name().strip('"'): node for node in graph.get_nodes()}
    assert "dashed" in alone["aten_topk_default"].get_style()
    assert "unknown-op" in alone["aten_topk_default"].get_tooltip()
    edges = [(e.get_source().strip('"'), e.get_destination().strip('"')) for e in graph.get_edges()]
    assert len(edges) == len(set(edges))
    assert ("x", "aten_linear_default") in edges
    assert ("aten_relu_default", "aten_topk_default") in edges
    assert not any("weight" in source for source, _ in edges)
