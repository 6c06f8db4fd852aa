"""The quantizers' annotations, each for the ops that it is asked for alone."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from torch import Tensor, per_channel_affine, per_channel_symmetric
from torchao.quantization.pt2e.quantizer import (
    DerivedQuantizationSpec,
    QuantizationAnnotation,
    Quantizer,
    SharedQuantizationSpec,
)

from cede.quant.pt2e.numbers import with_numbers
from cede.quant.pt2e.told import rows

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from torch.fx import GraphModule, Node

    from cede.quant.pt2e.assign import Assignment
    from cede.quant.pt2e.rows import AnnotatedRow
    from cede.types import Quantizer as Record

KEY = "quantization_annotation"
"""Where torchao reads a node's annotation (`Q_ANNOTATION_KEY`)."""

Found = dict["Node", Any]
"""Annotations by node."""


class Chosen(Quantizer):  # type: ignore[misc]
    """Quantizers of one or more backends, one a mode; each op is annotated by the one asked for it.

    Args:
        records: the quantizers, in priority order.
        inner: those made of them, by name and mode.
        asked: the quantizer and mode of an op.
    """

    def __init__(
        self,
        records: Sequence[Record],
        inner: Mapping[tuple[str, str], Any],
        asked: Assignment,
    ) -> None:
        super().__init__()
        self.records = {record.name: record for record in records}
        self.inner = inner
        self.asked = asked
        self.rows: tuple[AnnotatedRow, ...] = ()

    def transform_for_annotation(self, model: GraphModule) -> GraphModule:
        """What the backends want changed before, except for numbers of integer ops."""
        for inner in self.inner.values():
            model = with_numbers(inner.transform_for_annotation, model)
        return model

    def annotate(self, model: GraphModule) -> GraphModule:
        """Annotate with each quantizer, and keep what it is asked for."""
        found: dict[tuple[str, str], Found] = {}
        kept: Found = {}
        parted: set[Node] = set()
        by: dict[Node, tuple[str, str]] = {}
        for key in self.inner:
            found[key], apart = self._found(key, model)
            parted |= apart
            mine = self._mine(key, found[key])
            kept.update(mine)
            by.update(dict.fromkeys(mine, key))
        for node, annotation in kept.items():
            node.meta[KEY] = annotation
        self.rows = rows(model, self.asked, found, by, parted)
        return model

    def validate(self, model: GraphModule) -> None:
        """Ask the backends' own."""
        for inner in self.inner.values():
            inner.validate(model)

    def prepare_obs_or_fq_callback(self, model: GraphModule, observers: Any) -> None:
        """What the backends adjust once there are observers."""
        for inner in self.inner.values():
            inner.prepare_obs_or_fq_callback(model, observers)

    def _found(self, key: tuple[str, str], model: GraphModule) -> tuple[Found, set[Node]]:
        """What one quantizer annotates, and ops that it may not fuse with others.

        Ops of other backends are hidden from it: a pattern with one of them is not seen, and what
        is left of it may be another pattern. So is a pattern that the plan cuts in two.
        """
        calls = [node for node in model.graph.nodes if node.op == "call_function"]
        guided, masks = self.asked.guided, self.records[key[0]].masks
        foreign = {n for n in calls if guided and self.asked.quantizer(n) != key[0]}
        parted: set[Node] = set()
        while True:
            with _hidden(model, foreign | parted, masks):
                self.inner[key].annotate(model)
                given = {n: n.meta.pop(KEY) for n in model.graph.nodes if KEY in n.meta}
                given = {n: a for n, a in given.items() if _can_be_observed(n, a)}
            masked = foreign | parted if masks else parted
            found = {n: a for n, a in given.items() if n not in masked}
            apart = {n for n in found if self.asked.parted(n, owner(n, found))}
            if not apart:
                return found, parted
            parted |= apart

    def _mine(self, key: tuple[str, str], found: Found) -> Found:
        """The annotations of the ops that a quantizer is asked for in a mode."""
        kept = {n: a for n, a in found.items() if self._is_mine(key, n, found)}
        if len(kept) == len(found):
            return kept
        for node in [n for n in found if n not in kept]:
            self._move(key, node, found, kept)
        # What shares a scale with an op that is left has none itself.
        while gone := [n for n, a in kept.items() if not _has_all(a, found, kept)]:
            for node in gone:
                del kept[node]
        return kept

    def _is_mine(self, key: tuple[str, str], node: Node, found: Found) -> bool:
        if node.op != "call_function" and self.asked.guided:
            return all(self._asks(key, user) for user in node.users)
        return self._asks(key, owner(node, found))

    def _asks(self, key: tuple[str, str], node: Node) -> bool:
        whose = self.asked(node)
        return (whose.quantizer, whose.mode) == key

    def _move(self, key: tuple[str, str], node: Node, found: Found, kept: Found) -> None:
        """Where the result of a foreign op is to be quantized, quantize it before its own readers.

        nncf puts the scale of an input behind the op that gives it.
        """
        spec = found[node].output_qspec
        if spec is None or isinstance(spec, (SharedQuantizationSpec, DerivedQuantizationSpec)):
            return
        for user in node.users:
            if user.op == "call_function" and self._asks(key, user):
                given = kept.setdefault(user, QuantizationAnnotation(_annotated=True))
                given.input_qspec_map.setdefault(node, spec)


@contextmanager
def _hidden(model: GraphModule, nodes: set[Node], masks: bool) -> Iterator[None]:
    """Let ops look like nothing that a quantizer knows, and annotated where it minds that."""
    targets = {node: node.target for node in nodes}
    for node in nodes:
        node.target = _unknown
        if masks:
            node.meta[KEY] = QuantizationAnnotation(_annotated=True)
    try:
        yield
    finally:
        for node, target in targets.items():
            node.target = target
            node.meta.pop(KEY, None)
        model.recompile()


def _unknown(*args: Any, **kwargs: Any) -> Any:
    raise NotImplementedError


def _can_be_observed(node: Node, annotation: Any) -> bool:
    """Take out scales a channel of what has no channels, and say whether anything is left.

    nncf takes the bias of a group norm for a weight; torchao's observers need two dimensions.
    """
    specs = annotation.input_qspec_map
    for given in [given for given, spec in specs.items() if _is_flat(given, spec)]:
        del specs[given]
    if not _is_flat(node, annotation.output_qspec):
        return True
    annotation.output_qspec = None
    return bool(specs)


def _is_flat(node: Node, spec: Any) -> bool:
    value = node.meta.get("val")
    channels = getattr(spec, "qscheme", None) in (per_channel_affine, per_channel_symmetric)
    return channels and isinstance(value, Tensor) and value.dim() < 2


def owner(node: Node, found: Mapping[Node, Any]) -> Node:
    """The op whose share decides: an op that only gives a pattern's result goes with the first.

    An input or a constant goes with the first op that reads it.
    """
    if node.op != "call_function":
        return next(iter(node.users), node)
    before = [given for given in node.all_input_nodes if given.op == "call_function"]
    if not found[node].input_qspec_map and before and before[0] in found:
        return owner(before[0], found)
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
