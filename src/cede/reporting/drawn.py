"""A report's graph for other viewers: Model Explorer's JSON, and DOT for Graphviz.

Model Explorer's fields are those of `model_explorer.graph_builder` and `node_data_builder` in the
package ai-edge-model-explorer 0.1.
"""

from __future__ import annotations

import colorsys
import json
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterator

    from cede.reporting.records import Report, Row
    from cede.types import GraphInput, OpGraph

TURN = 0.381966
"""The golden angle, as a share of the circle: neighbouring delegates get colours far apart."""

GREY = "#e0e0e0"


def to_model_explorer(report: Report, title: str = "") -> str:
    """A collection of one graph: modules as layers, ops with their answers, inputs, outputs.

    Args:
        report: what it tells about.
        title: of the collection, such as the model's name.
    """
    nodes = [_input_node(given) for given in _inputs(report.graph)]
    nodes += [_op_node(row, report.graph) for row in report.rows]
    nodes.append(
        {"id": "outputs", "label": "outputs", "namespace": "", "attrs": [],
         "incomingEdges": _edges(report.graph.outputs, report.graph), "outputsMetadata": []}
    )  # fmt: skip
    graph = {
        "id": report.plan.method,
        "nodes": nodes,
        "groupNodeAttributes": {"": {"verdict": report.verdict}},
    }
    return _text({"label": title or report.plan.method, "graphs": [graph]})


def to_model_explorer_data(report: Report) -> str:
    """Node data for the graph of `to_model_explorer`: the delegate of each op that computes."""
    results = {
        row.op: {"value": _whose(row), "bgColor": colour, "textColor": "#000000"}
        for row, colour in _coloured(report)
        if row.delegate or not row.bookkeeping
    }
    data = {
        "name": "delegates",
        "results": results,
        "hideInAggregatedStatsTable": True,  # they are no numbers
        "showExpandedSummaryOnGroupNode": True,
        "showLabelCountColumnsInChildrenStatsTable": True,
    }
    return _text({report.plan.method: data})


def to_dot(report: Report, title: str = "") -> str:
    """One digraph; each delegate is a cluster, what was left has a dashed border.

    Args:
        report: what it tells about.
        title: of the graph, such as the model's name.
    """
    name = title or report.plan.method
    lines = [
        f"digraph {_quoted(name)} {{",
        '  node [shape=box, style=filled, fontname="sans-serif"];',
    ]
    lines += [
        f"  {_quoted(given.id)} [label={_quoted(given.id)}, shape=oval, fillcolor=white];"
        for given in _inputs(report.graph)
    ]
    clusters: dict[str, list[str]] = {}
    for row, colour in _coloured(report):
        style = "" if row.delegate else ', style="filled,dashed"'
        label = _quoted(f"{row.target}\n{row.outputs}")
        hint = _quoted(row.reason or row.module)
        look = f"label={label}, fillcolor={_quoted(colour)}{style}, tooltip={hint}"
        clusters.setdefault(row.delegate, []).append(f"{_quoted(row.op)} [{look}];")
    lines += [f"  {node}" for node in clusters.pop("", [])]
    for given in report.by_delegate:
        label = _quoted(f"{given.id} {given.backend}")
        lines.append(f"  subgraph {_quoted(f'cluster_{given.id}')} {{")
        lines.append(f"    label={label};")
        lines += [f"    {node}" for node in clusters.get(given.id, [])]
        lines.append("  }")
    lines += [
        f"  {_quoted(used)} -> {_quoted(row.op)};"
        for row in report.rows
        for used in _read(row.inputs, report.graph)
    ]
    return "\n".join([*lines, "}", ""])


def _coloured(report: Report) -> Iterator[tuple[Row, str]]:
    """Each row with its delegate's colour."""
    colours = {
        given.id: _hex(colorsys.hls_to_rgb(i * TURN % 1, 0.78, 0.7))
        for i, given in enumerate(report.by_delegate)
    }
    for row in report.rows:
        yield row, colours.get(row.delegate, GREY)


def _hex(colour: tuple[float, ...]) -> str:
    return "#" + "".join(f"{round(part * 255):02x}" for part in colour)


def _whose(row: Row) -> str:
    return f"{row.delegate} {row.backend}" if row.delegate else "left"


def _inputs(graph: OpGraph) -> list[GraphInput]:
    """Those that a call gives; weights are told at the ops that read them."""
    return [given for given in graph.inputs if not given.constant]


def _read(inputs: tuple[str, ...], graph: OpGraph) -> list[str]:
    """Values that are drawn, each once."""
    given = {used: graph.input(used) for used in inputs}
    return [used for used, one in given.items() if used in graph or (one and not one.constant)]


def _edges(inputs: tuple[str, ...], graph: OpGraph) -> list[dict[str, str]]:
    return [
        {"sourceNodeId": used, "sourceNodeOutputId": "0", "targetNodeInputId": str(at)}
        for at, used in enumerate(_read(inputs, graph))
    ]


def _input_node(given: GraphInput) -> dict[str, Any]:
    told = {"kind": given.kind.value, "name": given.target or ""}
    return {
        "id": given.id,
        "label": given.id,
        "namespace": _namespace(given.scope),
        "attrs": _attributes(told),
        "incomingEdges": [],
        "outputsMetadata": _metadata([str(given.tensor)] if given.tensor else []),
    }


def _op_node(row: Row, graph: OpGraph) -> dict[str, Any]:
    op = graph.op(row.op)
    weights = [given for used in op.inputs if (given := graph.input(used)) and given.constant]
    told = {
        "delegate": row.delegate and _whose(row),
        "partitioner": row.partitioner,
        "reason": row.reason,
        **{f"answer of {answer.partitioner}": str(answer) for answer in row.answers},
        "source": row.source,
        "layer": row.layer,
        "FLOPs": str(row.flops or ""),
        "bytes": str(row.bytes or ""),
        "reads": ", ".join(f"{given.target} {given.tensor}" for given in weights),
    }
    return {
        "id": row.op,
        "label": row.target,
        "namespace": _namespace(row.scope, row.module),
        "attrs": _attributes(told),
        "incomingEdges": _edges(op.inputs, graph),
        "outputsMetadata": _metadata([str(fact) for fact in op.outputs]),
    }


def _namespace(scope: str, module: str = "") -> str:
    return "/".join(part for part in (scope, *module.split(".")) if part)


def _attributes(told: dict[str, str]) -> list[dict[str, str]]:
    return [{"key": key, "value": value} for key, value in told.items() if value]


def _metadata(shapes: list[str]) -> list[dict[str, Any]]:
    return [
        {"id": str(at), "attrs": [{"key": "tensor_shape", "value": shape}]}
        for at, shape in enumerate(shapes)
    ]


def _quoted(text: str) -> str:
    escaped = text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
    return f'"{escaped}"'


def _text(data: Any) -> str:
    return json.dumps(data, indent=1, ensure_ascii=False) + "\n"
