"""From a model to a quantized program: export, annotate, calibrate, convert, export again."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from cede.config import Config, load_config
from cede.errors import ConfigError
from cede.host import Host
from cede.nearest import suggestion
from cede.types import Quantizer

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence
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

    Args:
        model: in eval mode, or a program from `torch.export.export` of static shapes; it stays.
        args: positional example inputs.
        quantizer: name of one that a plugin brings, or the record.
        mode: "static", "dynamic" or "weight-only", as the quantizer has them.
        per_channel: whether a weight has one scale a channel, else one in all.
        calibration: calls like those to come (see `calibration.calls`); None takes `args`.
        dynamic_shapes: as `torch.export.export` takes them.
        select: short selectors of the ops to quantize, such as "op:aten.conv2d"; none takes all.
        layers: rules with a mode or "none" for some ops, which go before; the last stands.
        config: which plugins are loaded.
        progress: called after each call with how many are done and how many there are, if known.

    Raises ConfigError for what can't be had, LoweringError for what export or quantizer fail on.
    """
    from cede.quant.pt2e.choice import Choice
    from cede.quant.pt2e.steps import quantized

    record, choose = _record(quantizer, config), Choice(mode, select, layers)
    _insist(record, mode, choose.modes, per_channel)
    return quantized(
        model, tuple(args), record, choose, per_channel, calibration, dynamic_shapes, progress
    )


def _insist(record: Quantizer, usual: str, modes: Iterable[str], per_channel: bool) -> None:
    from cede.quant.pt2e.choice import NONE

    if usual == NONE:
        raise ConfigError(f"mode is {NONE!r}: nothing would be quantized")
    for mode in modes:
        if mode not in record.modes:
            known = suggestion(mode, record.modes)
            raise ConfigError(f"the {record.name} quantizer has no mode {mode!r}; {known}")
    if per_channel not in record.granularities:
        word = "per channel" if per_channel else "per tensor"
        raise ConfigError(f"the {record.name} quantizer has no weights {word}")
    if (why := record.available()) is not None:
        raise ConfigError(f"the {record.name} quantizer can't be had here: {why}")


def _record(quantizer: str | Quantizer, config: Config | Path | str | None) -> Quantizer:
    if isinstance(quantizer, Quantizer):
        return quantizer
    host = Host.load(load_config(config))
    host.source("quantizer", quantizer)  # raises for a name that nobody brings
    record: Quantizer = host.quantizers[quantizer]
    return record
