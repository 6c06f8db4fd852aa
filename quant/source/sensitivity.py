"""Which module costs most: each is quantized alone."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from cede.quant.source.importance import weighed
from cede.quant.source.layers import layers
from cede.quant.source.ranked import RankedRow
from cede.quant.source.section import section
from cede.quant.source.trials import Trials

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from torch import nn

    from cede.config import Config, QuantizeConfig
    from cede.quant.calls import Call
    from cede.quant.source.layers import Layer


def rank_layers(
    model: nn.Module,
    calls: Iterable[Call],
    config: QuantizeConfig | Config | str,
    kwargs: Mapping[str, Any] | None = None,
) -> tuple[RankedRow, ...]:
    """How much each module costs that a config quantizes, the dearest first.

    Each module is quantized alone, for one run of the model on all calls. Weights are not copied.
    Errors of several modules together are not their sum; where they are small and unrelated their
    squares about add up, which is what `share` is of.

    Args:
        model: in float32 as far as it is quantized; it stays as it is, and runs in eval mode.
        calls: what each call is given: positional inputs, keyword inputs, or `Inputs`.
        config: as for `quantize_model`.
        kwargs: keyword inputs, for calls that have positional ones alone.

    Raises:
        ConfigError: as `quantize_model`, or calls on which no error can be measured.
    """
    calls = list(calls)
    todo = weighed(model, layers(model, section(config)), calls, kwargs)
    trials = Trials(model, calls, kwargs)
    found = []
    for layer in filter(lambda one: one.scheme, todo):
        error, held = trials.run([layer])
        found.append((error, layer, layer.module.get_parameter("weight").nbytes - held))
    total = sum(error**2 for error, _, _ in found) or 1.0
    rows = [_row(layer, error, error**2 / total, saved) for error, layer, saved in found]
    return tuple(sorted(rows, key=lambda row: -row.error))


def _row(layer: Layer, error: float, share: float, saved: int) -> RankedRow:
    assert layer.scheme is not None  # noqa: S101  (it was quantized)
    return RankedRow(
        module=layer.path,
        scheme=layer.scheme.name,
        group=layer.scheme.group,
        error=error,
        share=share if math.isfinite(share) else 0.0,
        saved=saved,
    )
