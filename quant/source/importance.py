"""How much each input of a linear module matters: its mean square over some calls."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from cede.errors import ConfigError
from cede.quant.calls import all_inputs, leaves
from cede.quant.source.rewrite import copied
from cede.quant.source.scheme import Scheme

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from torch import Tensor, nn

    from cede.quant.calls import Call
    from cede.quant.source.layers import Layer
    from cede.types import Inputs


def weighed(
    model: nn.Module,
    layers: list[Layer],
    calls: Iterable[Call] | None,
    kwargs: Mapping[str, Any] | None = None,
) -> list[Layer]:
    """The layers, those with fitted scales with the mean squared inputs of their modules.

    Modules that share a weight get the sum of theirs. The model runs in float, on a copy of its
    buffers. A module that no call reaches weighs all inputs alike, and its note says so.

    Args:
        model: of the layers; it stays as it is.
        layers: as `layers` gives them.
        calls: what each call is given; None or none weighs all inputs alike.
        kwargs: keyword inputs, for calls that have positional ones alone.

    Raises:
        ConfigError: on the calls a module gets NaN or infinities.
    """
    wanted = [one for one in layers if _is_fitted(one)]
    given = all_inputs(calls, kwargs)
    if not wanted:
        return layers
    means = _means(model, [one.path for one in wanted], given)
    sums: dict[int, Tensor] = {}
    for one in wanted:
        if (mean := means.get(one.path)) is not None:
            known = sums.get(id(one.module.weight))
            sums[id(one.module.weight)] = mean if known is None else known + mean
    return [_with(one, sums, len(given)) if _is_fitted(one) else one for one in layers]


def _is_fitted(layer: Layer) -> bool:
    return isinstance(layer.scheme, Scheme) and layer.scheme.fitted


def _with(layer: Layer, sums: Mapping[int, Tensor], count: int) -> Layer:
    found = sums.get(id(layer.module.weight))
    told = f"scales fitted to {count} call{'s' * (count != 1)}"
    if found is None:
        told = "scales fitted, all inputs weighed alike" + (": no call reaches it" * bool(count))
    return replace(layer, importance=found, note="; ".join(filter(None, (layer.note, told))))


def _means(
    model: nn.Module,
    paths: Sequence[str],
    calls: Iterable[Inputs],
) -> dict[str, Tensor]:
    """Mean squared inputs, float32 [in], by path of a module."""
    run = copied(model, model.parameters()).eval()
    sums: dict[str, Tensor] = {}
    counts: dict[str, int] = {}

    def adding(path: str) -> Callable[..., None]:
        def hook(module: nn.Module, args: Any, kwargs: Any) -> None:
            given = (args[0] if args else kwargs["input"]).detach().double()
            rows = given.reshape(-1, given.shape[-1])
            sums[path] = sums.get(path, 0) + rows.square().sum(0)
            counts[path] = counts.get(path, 0) + len(rows)

        return hook

    for path in paths:
        run.get_submodule(path).register_forward_pre_hook(adding(path), with_kwargs=True)
    for call in calls:
        leaves(run, call)
    for path, total in sums.items():
        if not bool(total.isfinite().all()):
            raise ConfigError(
                f"quantize.calibration: the inputs of {path or 'the model'} have NaN or infinities"
            )
    return {path: (total / max(counts[path], 1)).float() for path, total in sums.items()}
