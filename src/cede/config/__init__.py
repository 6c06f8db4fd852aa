"""The config: YAML files of `configs/` or your own, with `key=value` overrides."""

from cede.config.load import load_config, ready_configs
from cede.config.options import check_options
from cede.config.schema import (
    ROOFLINE,
    CheckConfig,
    Config,
    LayerConfig,
    LimitsConfig,
    LoweringConfig,
    PluginsConfig,
    PolicyConfig,
    QuantizeConfig,
)
from cede.config.selectors import SelectorConfig

__all__ = [
    "ROOFLINE",
    "CheckConfig",
    "Config",
    "LayerConfig",
    "LimitsConfig",
    "LoweringConfig",
    "PluginsConfig",
    "PolicyConfig",
    "QuantizeConfig",
    "SelectorConfig",
    "check_options",
    "load_config",
    "ready_configs",
]
