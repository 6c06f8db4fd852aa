"""From a model to a quantized program: export, annotate, calibrate, convert, export again."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from cede.config import Config, load_config
from cede.errors import ConfigError
from cede.host import Host
from cede.nearest import suggestion
from cede.types import Quantizer

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    import torch
    from torch.export import ExportedProgram

    from cede.config import LayerConfig
    from cede.quant.pt2e.calibration import Calibration
    from cede.quant.pt2e.rows import AnnotationReport

    Progress = Callable[[int, int | None], None]


def quantize_program(
    model: torch.nn.Module | ExportedProgram,
    args: Sequence[Any],
    quantizer: str | Quantizer,
    mode: str = "static",
    per_channel: bool = True,
    calibration: Calibration | None = None,
    dynamic_shapes: Any = None,
    select: Sequence[str] = (),
    *,
    layers: Sequence[LayerConfig] = (),
    config: Config | Path | str | None = None,
    progress: Progress | None = None,
) -> tuple[ExportedProgram, AnnotationReport]:
    """A program in integers, as a backend's quantizer annotates it, and a row for each kind of op.

    The given model stays as it is.

    Args:
        model: in eval mode, or a program from `torch.export.export` without dynamic shapes.
        args: positional example inputs.
        quantizer: name of one that a plugin brings, or the record.
        mode: one of the quantizer's: "static", "dynamic", "weight-only".
        per_channel: whether a weight has one scale a channel, else one in all.
        calibration: calls that are like those to come: an iterable of argument tuples, a function
            that gives one, or a `.pt` or `.npz` file (see `cede.quant.pt2e.calibration.calls`).
            None takes `args`, which static mode warns of.
        dynamic_shapes: as `torch.export.export` takes them.
        select: short selectors ("module:encoder", "op:aten.conv2d"); only ops that match one are
            quantized, all where there is none.
        layers: rules with a mode or "none" for some ops, which go before; the last stands.
        config: which plugins are loaded.
        progress: called after each call with how many are done and how many there are, if known.

    Raises:
        ConfigError: an unknown quantizer or mode, a selector that selects nothing, calibration
            data that can't be used, or a model in training mode.
        LoweringError: the program can't be exported, or the quantizer fails on it.
    """
    from cede.quant.pt2e.choice import NONE, Choice
    from cede.quant.pt2e.steps import quantized

    record = _record(quantizer, config)
    choose = Choice(mode, select, layers)
    for given in choose.modes:
        if given not in record.modes:
            known = f"{suggestion(given, record.modes)}"
            raise ConfigError(f"the {record.name} quantizer has no mode {given!r}; {known}")
    if mode == NONE:
        raise ConfigError(f"mode is {NONE!r}: nothing would be quantized")
    if per_channel not in record.granularities:
        word = "per channel" if per_channel else "per tensor"
        raise ConfigError(f"the {record.name} quantizer has no weights {word}")
    if (why := record.available()) is not None:
        raise ConfigError(f"the {record.name} quantizer can't be had here: {why}")
    return quantized(
        model, tuple(args), record, choose, per_channel, calibration, dynamic_shapes, progress
    )


def _record(quantizer: str | Quantizer, config: Config | Path | str | None) -> Quantizer:
    if isinstance(quantizer, Quantizer):
        return quantizer
    host = Host.load(load_config(config))
    host.source("quantizer", quantizer)  # raises for a name that nobody brings
    record: Quantizer = host.quantizers[quantizer]
    return record
