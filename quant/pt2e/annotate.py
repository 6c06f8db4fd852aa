"""A quantizer's annotations, for the ops that were chosen alone."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch
from torchao.quantization.pt2e.quantizer import (
    DerivedQuantizationSpec,
    Quantizer,
    SharedQuantizationSpec,
)

from cede.facts.places import module_of
from cede.quant.pt2e.choice import NONE, kind_of
from cede.quant.pt2e.rows import AnnotatedRow

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from torch.fx import GraphModule, Node

    from cede.quant.pt2e.choice import Choice

KEY = "quantization_annotation"
"""Where torchao reads a node's annotation (`Q_ANNOTATION_KEY`)."""


class Chosen(Quantizer):  # type: ignore[misc]
    """Several quantizers of one backend, one a mode; each op is annotated by that of its mode.

    Args:
        name: of the quantizer, for the rows.
        inner: by mode.
        choose: the mode of an op.
    """

    def __init__(self, name: str, inner: Mapping[str, Any], choose: Choice) -> None:
        super().__init__()
        self.name = name
        self.inner = inner
        self.choose = choose
        self.rows: tuple[AnnotatedRow, ...] = ()

    def transform_for_annotation(self, model: GraphModule) -> GraphModule:
        """What the backend wants changed before."""
        for inner in self.inner.values():
            model = inner.transform_for_annotation(model)
        return model

    def annotate(self, model: GraphModule) -> GraphModule:
        """Annotate with each quantizer, and keep what was chosen."""
        nodes = list(model.graph.nodes)
        found: dict[str, dict[Node, Any]] = {}
        for mode, inner in self.inner.items():
            inner.annotate(model)
            found[mode] = {n: n.meta.pop(KEY) for n in nodes if _annotated(n)}
        kept: dict[Node, Any] = {}
        modes: dict[Node, str] = {}
        for mode, given in found.items():
            chosen = self._chosen(mode, given)
            kept.update(chosen)
            modes.update(dict.fromkeys(chosen, mode))
        for node, annotation in kept.items():
            node.meta[KEY] = annotation
        self.rows = tuple(
            _grouped(self._row(node, found, modes) for node in nodes if _counts(node))
        )
        return model

    def validate(self, model: GraphModule) -> None:
        """Ask the backend's own."""
        for inner in self.inner.values():
            inner.validate(model)

    def prepare_obs_or_fq_callback(self, model: GraphModule, observers: Any) -> None:
        """What the backend adjusts once there are observers."""
        for inner in self.inner.values():
            inner.prepare_obs_or_fq_callback(model, observers)

    def _chosen(self, mode: str, found: Mapping[Node, Any]) -> dict[Node, Any]:
        kept = {n: a for n, a in found.items() if self.choose(_owner(n, found))[0] == mode}
        if len(kept) == len(found):
            return kept
        # What shares a scale with an op that is left has none itself.
        while gone := [n for n, a in kept.items() if not _has_all(a, found, kept)]:
            for node in gone:
                del kept[node]
        return kept

    def _row(
        self, node: Node, found: Mapping[str, Mapping[Node, Any]], modes: Mapping[Node, str]
    ) -> AnnotatedRow:
        kind, mode = kind_of(node), modes.get(node, "")
        note = "" if mode else self._why(node, kind, found)
        return AnnotatedRow(module=module_of(node), op=kind, count=1, scheme=mode, note=note)

    def _why(self, node: Node, kind: str, found: Mapping[str, Mapping[Node, Any]]) -> str:
        mode, why = self.choose(node)
        if mode == NONE:
            return why
        if node in found[mode]:
            return "it goes with an op that is left in float"
        if not node.meta["val"].is_floating_point():
            return f"its result is {str(node.meta['val'].dtype).removeprefix('torch.')}"
        if any(kind_of(other) == kind for other in found[mode]):
            return f"the {self.name} quantizer left this one, and annotated others in mode {mode}"
        return f"the {self.name} quantizer annotates no {kind} in mode {mode}"


def _annotated(node: Node) -> bool:
    return KEY in node.meta


def _counts(node: Node) -> bool:
    """Whether an op computes a tensor."""
    op = isinstance(node.target, torch._ops.OpOverload)
    return op and isinstance(node.meta.get("val"), torch.Tensor)


def _owner(node: Node, found: Mapping[Node, Any]) -> Node:
    """The op whose choice decides: an op that only gives a pattern's result goes with the first.

    An input or a constant goes with the first op that reads it.
    """
    if node.op != "call_function":
        return next(iter(node.users), node)
    before = [given for given in node.all_input_nodes if given.op == "call_function"]
    if not found[node].input_qspec_map and before and before[0] in found:
        return _owner(before[0], found)
    return node


def _has_all(annotation: Any, found: Mapping[Node, Any], kept: Mapping[Node, Any]) -> bool:
    return all(node in kept or node not in found for node in _references(annotation))


def _references(annotation: Any) -> Iterator[Node]:
    """The nodes whose annotations hold the scales that this one takes."""
    for spec in (*annotation.input_qspec_map.values(), annotation.output_qspec):
        if isinstance(spec, SharedQuantizationSpec):
            places = [spec.edge_or_node]
        elif isinstance(spec, DerivedQuantizationSpec):
            places = list(spec.derived_from)
        else:
            continue
        for place in places:
            yield place[1] if isinstance(place, tuple) else place


def _grouped(rows: Iterator[AnnotatedRow]) -> Iterator[AnnotatedRow]:
    counts: dict[tuple[str, str, str, str], int] = {}
    for row in rows:
        key = (row.module, row.op, row.scheme, row.note)
        counts[key] = counts.get(key, 0) + 1
    for (module, op, scheme, note), count in counts.items():
        yield AnnotatedRow(module=module, op=op, count=count, scheme=scheme, note=note)
