"""Rewriting a model, module by module, and a row for each."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch

from cede.quant.noise import sqnr
from cede.quant.source.held import held_bytes, weight_of
from cede.quant.source.importance import weighed
from cede.quant.source.layers import Layer, layers
from cede.quant.source.rewrite import copied, places, rewritten, with_weight_of
from cede.quant.source.rows import QuantizationReport, QuantizedRow
from cede.quant.source.section import section

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from torch import Tensor, nn

    from cede.config import Config, QuantizeConfig
    from cede.quant.calls import Call

Held = tuple[float | None, int]
"""SQNR of a quantized weight in dB, and bytes of its data and scales."""


def quantize_model(
    model: nn.Module,
    config: QuantizeConfig | Config | str,
    calls: Iterable[Call] | None = None,
    kwargs: Mapping[str, Any] | None = None,
) -> tuple[nn.Module, QuantizationReport]:
    """As `cede.quantize_model`."""
    todo = weighed(model, layers(model, section(config)), calls, kwargs)
    with torch.no_grad():
        made, rows = _rewritten(model, todo)
    return made, _report(todo, rows)


def _rewritten(model: nn.Module, todo: list[Layer]) -> tuple[nn.Module, list[QuantizedRow]]:
    made = copied(model, (*model.parameters(), *model.buffers()))
    modules, holders = dict(made.named_modules()), places(made)
    tied = _tied(todo)
    shared: dict[tuple[int, str, int], tuple[nn.Module, Held]] = {}
    rows = []
    for layer in todo:
        if layer.scheme is None:
            rows.append(_row(layer, None, tied))
            continue
        key = (id(layer.module.weight), repr(layer.scheme), layer.padding)
        own = modules[layer.path]
        if key in shared:
            first, held = shared[key]
            done = with_weight_of(first, own)
        else:
            done = rewritten(own, layer)
            held = _measured(own.get_parameter("weight").detach(), done)
            shared[key] = done, held
        for parent, name in holders.get(id(own), ()):
            setattr(parent, name, done)
        made = made if layer.path else done
        rows.append(_row(layer, held, tied))
    return made, rows


def _report(todo: list[Layer], rows: list[QuantizedRow]) -> QuantizationReport:
    before, after = {}, {}
    for layer, row in zip(todo, rows, strict=True):
        weight = id(layer.module.weight)
        before[weight] = row.bytes_before
        after[weight, row.scheme, row.group, layer.padding] = row.bytes_after
    return QuantizationReport(
        rows=tuple(rows), bytes_before=sum(before.values()), bytes_after=sum(after.values())
    )


def _tied(todo: list[Layer]) -> dict[int, list[Layer]]:
    """Layers by the weight that they share with others."""
    found: dict[int, list[Layer]] = {}
    for layer in todo:
        found.setdefault(id(layer.module.weight), []).append(layer)
    return {key: several for key, several in found.items() if len(several) > 1}


def _row(layer: Layer, held: Held | None, tied: dict[int, list[Layer]]) -> QuantizedRow:
    weight: Tensor = layer.module.weight  # type: ignore[assignment]  # some are computed
    before = weight.numel() * weight.element_size()
    notes = [layer.note] if layer.note else []
    others = [one for one in tied.get(id(layer.module.weight), ()) if one.path != layer.path]
    for other in others:
        same = (other.scheme, other.padding) == (layer.scheme, layer.padding)
        verb = "tied with" if same else "untied from"
        notes.append(f"{verb} {other.path}" + ("" if same else ", stored twice"))
    noise, after = held or (None, before)
    return QuantizedRow(
        module=layer.path,
        kind=type(layer.module).__name__,
        shape=tuple(weight.shape),
        scheme=layer.scheme.name if layer.scheme else "",
        group=layer.scheme.group if layer.scheme else 0,
        bytes_before=before,
        bytes_after=after,
        sqnr=noise,
        note="; ".join(notes),
    )


def _measured(weight: Tensor, done: nn.Module) -> Held:
    back = weight_of(done, weight.shape[1])
    return None if back is None else sqnr(weight, back), held_bytes(done)
