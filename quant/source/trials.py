"""Trying numbers out: some modules quantized for one run, and the outputs against float."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import torch

from cede.errors import ConfigError
from cede.quant.calls import all_inputs, floats
from cede.quant.source.apply import quantize_model
from cede.quant.source.held import held_bytes
from cede.quant.source.rewrite import copied, places, rewritten

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from cede.config import QuantizeConfig
    from cede.quant.calls import Call
    from cede.quant.source.layers import Layer


class Trials:
    """A model in eval mode, its float outputs on some calls, and the error of quantizing a part.

    The given model stays as it is, in its mode and its state. No weight is copied: its modules are
    copied with the same parameters in them, and only those that are tried get new ones, for as long
    as the run takes. Buffers are copied once; a run that writes into them starts from the first
    values.

    Args:
        model: the float model.
        calls: what each call is given: positional inputs, keyword inputs, or `Inputs`.
        kwargs: keyword inputs, for calls that have positional ones alone.

    Raises:
        ConfigError: there is no call, or the model gives no float outputs, or only zeros, or NaN.
    """

    def __init__(
        self,
        model: torch.nn.Module,
        calls: Iterable[Call],
        kwargs: Mapping[str, Any] | None = None,
    ) -> None:
        self.runs = 0
        self._last: dict[object, torch.nn.Module] = {}  # what the last run made: the next needs it
        self._model = copied(model, model.parameters()).eval()
        self._modules = dict(self._model.named_modules())
        self._places = places(self._model)
        self._state = [(b, b.detach().clone(), b._version) for b in self._model.buffers()]
        self._calls = all_inputs(calls, kwargs)
        if not self._calls:
            raise ConfigError("there is no call to measure errors on: give at least one")
        self._wanted = self._outputs(self._model)
        self._norm = float(self._wanted.norm())
        if not self._norm or not math.isfinite(self._norm):
            raise ConfigError(
                "an error relative to the float model can't be measured: on these inputs its"
                f" outputs hold {self._wanted.numel()} float values of norm {self._norm:g}"
            )

    def run(self, layers: Iterable[Layer]) -> tuple[float, int]:
        """Error and size with these modules quantized, as the layers say, and no others.

        Returns:
            The relative error of all float outputs of all calls in the L2 norm, infinite where
            there is NaN; and the bytes of the quantized weights with their scales, those that
            several modules share counted once.
        """
        made: dict[object, torch.nn.Module] = {}
        held: dict[object, int] = {}
        changed = []
        root = self._model
        with torch.no_grad():
            try:
                for layer in layers:
                    own, what = self._modules[layer.path], (repr(layer.scheme), layer.padding)
                    done = self._last.get((layer.path, what)) or rewritten(own, layer)
                    made[layer.path, what] = done
                    held[id(layer.module.weight), what] = held_bytes(done)
                    for parent, name in self._places.get(id(own), ()):
                        changed.append((parent, name, own))
                        setattr(parent, name, done)
                    root = root if layer.path else done
                error = self._error(self._outputs(root))
            finally:
                for parent, name, own in changed:
                    setattr(parent, name, own)
        self._last = made
        return error, sum(held.values())

    def configured(self, config: QuantizeConfig) -> float:
        """The error of the model as `quantize_model` makes it. Raises what that raises."""
        return self._error(self._outputs(quantize_model(self._model, config)[0]))

    def _error(self, got: torch.Tensor) -> float:
        error = float((got - self._wanted).norm()) / self._norm
        return error if math.isfinite(error) else math.inf

    def _outputs(self, model: torch.nn.Module) -> torch.Tensor:
        """All float outputs of all calls, float64, flat."""
        self.runs += 1
        found = [floats(model, call) for call in self._calls]
        with torch.no_grad():
            for buffer, first, version in self._state:
                if buffer._version != version:
                    buffer.copy_(first)
        return torch.cat(found)
