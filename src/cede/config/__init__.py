"""The config: YAML files of `configs/` or your own, with `key=value` overrides."""

from cede.config.load import load_config, ready_configs
from cede.config.options import check_options
from cede.config.schema import (
    ROOFLINE,
    CheckConfig,
    Config,
    LimitsConfig,
    PluginsConfig,
    PolicyConfig,
)
from cede.config.selectors import SelectorConfig

__all__ = [
    "ROOFLINE",
    "CheckConfig",
    "Config",
    "LimitsConfig",
    "PluginsConfig",
    "PolicyConfig",
    "SelectorConfig",
    "check_options",
    "load_config",
    "ready_configs",
]
