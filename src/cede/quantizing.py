"""The Python face of quantizing a model in its source; nothing heavy is imported until a call."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    import torch

    from cede.config import Config, QuantizeConfig
    from cede.quant.calls import Call
    from cede.quant.source import QuantizationReport, RankedRow, Suggestion


def quantize_model(
    model: torch.nn.Module,
    config: QuantizeConfig | Config | str,
    calls: Sequence[Call] | None = None,
    kwargs: Mapping[str, Any] | None = None,
) -> tuple[torch.nn.Module, QuantizationReport]:
    """A model whose linear and embedding modules compute in other numbers, and a row for each.

    The given model stays as it is; what is not quantized shares its weights with it.

    Args:
        model: in float32 as far as it is quantized.
        config: modes, groups and rules: the section `quantize` of a config, a config that has it,
            or only a mode for linear modules, such as "8da4w".
        calls: what each call is given, for `quantize.scales: fitted`, which weighs errors by
            the inputs that they are multiplied with; None weighs all alike.
        kwargs: keyword inputs, for calls that have positional ones alone.

    Raises:
        ConfigError: a mode that can't be had here, or groups that don't divide; before any work.
    """
    from cede.quant.source import quantize_model as quantized

    return quantized(model, config, calls, kwargs)


def rank_layers(
    model: torch.nn.Module,
    calls: Sequence[Call],
    config: QuantizeConfig | Config | str,
    kwargs: Mapping[str, Any] | None = None,
) -> tuple[RankedRow, ...]:
    """How much output error each module costs that a config quantizes, the dearest first.

    Each is quantized alone, and the model runs once for it on all calls. Weights are not copied.

    Args:
        model: in float32 as far as it is quantized; it stays as it is, and runs in eval mode.
        calls: what each call is given: positional inputs, keyword inputs, or `Inputs`.
        config: as for `quantize_model`.
        kwargs: keyword inputs, for calls that have positional ones alone.

    Raises:
        ConfigError: as `quantize_model`, or calls on which no error can be measured.
    """
    from cede.quant.source import rank_layers as ranked

    return ranked(model, calls, config, kwargs)


def suggest_quantization(
    model: torch.nn.Module,
    calls: Sequence[Call],
    error: float,
    candidates: Sequence[str] | None = None,
    config: QuantizeConfig | None = None,
    kwargs: Mapping[str, Any] | None = None,
) -> Suggestion:
    """Rules for `quantize.layers` that keep the outputs within an error, in few bytes.

    `cede.quant.source.suggest_quantization` tells how they are found, and the limits of that.

    Args:
        model: in float32 as far as it is quantized; it stays as it is, and runs in eval mode.
        calls: what each call is given: positional inputs, keyword inputs, or `Inputs`.
        error: the most that the outputs may be off, relative in the L2 norm: 0.01 is 40 dB.
        candidates: modes, "MODE:GROUP", and "BITS,GROUP" for embeddings; None tries 8da8w, 8da4w
            and embeddings of 8, 4 and 2 bits.
        config: whose rules with mode "none" name modules to leave.
        kwargs: keyword inputs, for calls that have positional ones alone.

    Raises:
        ConfigError: no positive error, a candidate that can't be had, rules of another kind, or
            calls on which no error can be measured.
    """
    from cede.quant.source import CANDIDATES
    from cede.quant.source import suggest_quantization as suggested

    given = CANDIDATES if candidates is None else candidates
    return suggested(model, calls, error, given, config, kwargs)
