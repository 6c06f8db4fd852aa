"""What the section `quantize` of a config asks of pt2e."""

from __future__ import annotations

from dataclasses import fields, replace
from typing import TYPE_CHECKING, Any

from cede.config import Config, QuantizeConfig
from cede.errors import ConfigError
from cede.quant.pt2e.program import quantize_program

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    import torch
    from torch.export import ExportedProgram

    from cede.quant.pt2e.calibration import Calibration
    from cede.quant.pt2e.program import Progress
    from cede.quant.pt2e.rows import AnnotationReport

_OWN = ("pt2e", "pt2e_mode", "per_channel", "calibration", "guided", "layers")


def quantize_as_configured(
    model: torch.nn.Module | ExportedProgram,
    args: Sequence[Any],
    kwargs: Mapping[str, Any],
    config: Config,
    dynamic_shapes: Any = None,
    calibration: Calibration | None = None,
    progress: Progress | None = None,
) -> tuple[ExportedProgram, AnnotationReport]:
    """As `quantize_program`, by `config.quantize`.

    Args:
        model: as there.
        args: as there.
        kwargs: as there.
        config: the whole, for its plugins.
        dynamic_shapes: as there.
        calibration: in place of the file that the config names.
        progress: as there.

    Raises:
        ConfigError: as there; keys that are not for pt2e.
    """
    asked = config.quantize
    _insist(asked)
    return quantize_program(
        model,
        args,
        asked.pt2e,
        asked.pt2e_mode,
        asked.per_channel,
        calibration or asked.calibration or None,
        dynamic_shapes,
        kwargs=kwargs,
        layers=asked.layers,
        config=replace(config, quantize=QuantizeConfig()),
        guided=None if asked.guided else False,
        progress=progress,
    )


def _insist(asked: QuantizeConfig) -> None:
    plain = QuantizeConfig()
    for name in (f.name for f in fields(asked) if f.name not in _OWN):
        if getattr(asked, name) != getattr(plain, name):
            raise ConfigError(
                f"quantize.{name} rewrites the model's source, quantize.pt2e annotates the exported"
                " program: give one of them"
            )
    for number, rule in enumerate(asked.layers):
        if rule.group_size is not None:
            raise ConfigError(
                f"quantize.layers[{number}].group_size: the quantizers of quantize.pt2e have no"
                " groups; leave it out"
            )
