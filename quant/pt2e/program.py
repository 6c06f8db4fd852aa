"""From a model to a quantized program: export, annotate, calibrate, convert, export again."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from cede.config import Config, QuantizeConfig, load_config
from cede.errors import ConfigError
from cede.host import Host
from cede.quant.pt2e.asked import insist, named
from cede.types import Inputs

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from pathlib import Path

    import torch
    from torch.export import ExportedProgram

    from cede.config import LayerConfig
    from cede.quant.pt2e.calibration import Calibration
    from cede.quant.pt2e.rows import AnnotationReport
    from cede.quant.pt2e.steps import Way
    from cede.types import Quantizer

    Progress = Callable[[int, int | None], None]


def quantize_program(
    model: torch.nn.Module | ExportedProgram,
    args: Sequence[Any],
    quantizer: str | Quantizer | Sequence[str | Quantizer],
    mode: str = "static",
    per_channel: bool = True,
    calibration: Calibration | None = None,
    dynamic_shapes: Any = None,
    select: Sequence[str] = (),
    *,
    kwargs: Mapping[str, Any] | None = None,
    layers: Sequence[LayerConfig] = (),
    config: Config | Path | str | None = None,
    guided: bool | None = None,
    progress: Progress | None = None,
) -> tuple[ExportedProgram, AnnotationReport]:
    """A program in integers, as backends' quantizers annotate it, and a row for each kind of op.

    Guided, `config` plans the float program first: a quantizer annotates what its backend gets.

    Args:
        model: in eval mode, or an exported program of static shapes; it stays as it is.
        args: positional example inputs; `kwargs` are those by keyword.
        quantizer: a name, several (listed or joined by commas), records; "auto": of all backends.
        mode: "static", "dynamic" or "weight-only", as the quantizers have them.
        per_channel: whether a weight has one scale a channel, else one in all.
        calibration: calls like those to come (see `calibration.calls`); None takes the example.
        dynamic_shapes: of `torch.export.export`.
        select: short selectors of the ops to quantize, such as "op:aten.conv2d"; none takes all.
        layers: rules with a mode or "none" for some ops, which go before; the last stands.
        config: plugins; guided also backends, policy, limits, settling; no section `quantize`.
        guided: None is True where `config` names backends. Several quantizers need it.
        progress: called after each call with how many are done and how many there are, if known.
    Raises ConfigError for what can't be had, LoweringError for what export or quantizer fail on.
    """
    from cede.quant.pt2e.steps import quantized

    way = _way(quantizer, (mode, select, layers), per_channel, config, guided)
    given = Inputs(args=tuple(args), kwargs=kwargs or {})
    return quantized(model, given, way, calibration, dynamic_shapes, progress)


def _way(
    quantizer: str | Quantizer | Sequence[str | Quantizer],
    chosen: tuple[str, Sequence[str], Sequence[LayerConfig]],
    per_channel: bool,
    config: Config | Path | str | None,
    guided: bool | None,
) -> Way:
    from cede.quant.pt2e.choice import Choice
    from cede.quant.pt2e.steps import Way

    choose = Choice(*chosen)
    loaded = load_config(config)
    if loaded.quantize != QuantizeConfig():
        raise ConfigError(
            "quantize_program: the config has a section quantize, which would not be heeded: give"
            " its keys as arguments, or let cede.export take the config"
        )
    host = Host.load(loaded)
    if guided is None:
        guided = config is not None and bool(loaded.backends or loaded.partitioners)
    records = named(quantizer, host, loaded)
    insist(records, choose.mode, choose.modes, per_channel, guided, host, loaded)
    return Way(
        records=records,
        choose=choose,
        per_channel=per_channel,
        host=host,
        config=loaded if guided else None,
    )
