"""What may stand for the section `quantize` of a config."""

from __future__ import annotations

from cede.config import Config, QuantizeConfig
from cede.errors import ConfigError


def section(config: object) -> QuantizeConfig:
    """The section of a config, of itself, or of a mode for linear modules.

    Raises:
        ConfigError: anything else.
    """
    if isinstance(config, QuantizeConfig):
        return config
    if isinstance(config, str):
        return QuantizeConfig(mode=config)
    if isinstance(config, Config):
        return config.quantize
    raise ConfigError(
        f"quantize: {type(config).__name__} says no numbers; give a cede.config.QuantizeConfig, a"
        " cede.Config with the section quantize, or a mode such as '8da4w'"
    )
