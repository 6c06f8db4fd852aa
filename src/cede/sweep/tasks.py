"""From the settings of a sweep to what is to be done, each with a key that tells whether it was."""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from cede.calibrate.machine import version_of
from cede.config import ROOFLINE, Config, check_options, load_config
from cede.errors import ConfigError
from cede.files import sha256_of
from cede.host import Host
from cede.named import must_be_there

if TYPE_CHECKING:
    from cede.sweep.settings import SweepConfig, VariantConfig

VERSIONED = ("cede", "torch", "executorch", "torchao")


@dataclass(frozen=True, slots=True, kw_only=True)
class Task:
    """One model under one config.

    Attributes:
        model: as the table names it.
        spec: the same with the whole path of its file.
        name: of the config.
        config: itself.
        level: how far to go.
        calls: how many calls to measure.
        key: equal keys, equal rows: the model's and the config's contents, and all versions.
    """

    model: str
    spec: str
    name: str
    config: Config
    level: str
    calls: int
    key: str

    @property
    def place(self) -> str:
        """The folder that it imports from; two of them may have modules of one name."""
        file = _file(self.spec)
        return str(file.parent) if file else ""


def tasks(sweep: SweepConfig) -> tuple[Task, ...]:
    """Every model under every config, models first.

    Raises:
        ConfigError: there is no model or no config, a model's file is not there, settings that
            don't fit together, or a config that can't be used; all problems with configs, each
            with the config's name.
        PluginError: a plugin that a config asks for failed.
    """
    if not sweep.models:
        raise ConfigError("there is no model: give MODEL, or `models` in SWEEP.yaml")
    if not sweep.configs:
        raise ConfigError("there is no config: give --config, or `configs` in SWEEP.yaml")
    if sweep.calls and sweep.level != "run":
        raise ConfigError(f"calls are measured at the level run, and the level is {sweep.level}")
    names = _names(sweep)
    for spec in sweep.models:
        must_be_there(spec)
    configs = _configs(sweep.configs)
    plugins = {name: _plugins(config) for name, config in configs.items()}
    files = {spec: _digest(_file(spec)) for spec in sweep.models}
    return tuple(
        Task(
            model=names[spec],
            spec=_absolute(spec),
            name=name,
            config=config,
            level=sweep.level,
            calls=sweep.calls,
            key=_key(_absolute(spec), files[spec], _told(config), plugins[name],
                     sweep.level, sweep.calls),
        )
        for spec in dict.fromkeys(sweep.models)
        for name, config in configs.items()
    )  # fmt: skip


def _names(sweep: SweepConfig) -> dict[str, str]:
    """What the table calls each model."""
    names = {spec: sweep.names.get(spec, spec) for spec in sweep.models}
    twice = [name for name, count in Counter(names.values()).items() if count > 1]
    if twice:
        raise ConfigError(f"two models are called {twice[0]}; give one of them by its whole path")
    return names


def _configs(variants: dict[str, VariantConfig]) -> dict[str, Config]:
    found, lines = {}, []
    for name, given in variants.items():
        try:
            config = load_config(given.config or name, given.overrides)
            host = Host.load(config)
            check_options(config, host.backends, host.backend)
            host.partitioners_for(config)
            found[name] = config
        except ConfigError as error:
            lines += [f"configs.{name}: {line}" for line in str(error).splitlines()]
    if lines:
        raise ConfigError("\n".join(lines))
    return found


def _plugins(config: Config) -> list[str]:
    own = [f"{given.distribution} {given.version}" for given in Host.load(config).plugins]
    return sorted({*own, *(f"{name} {found}" for name, found in versions().items())})


def versions() -> dict[str, str]:
    """Of cede and what it computes with, "unknown" where one is not installed as a package."""
    return {name: version_of(name) for name in VERSIONED}


def _told(config: Config) -> dict[str, Any]:
    """A config with the contents of the files that it names."""
    values = asdict(config)
    del values["origins"]
    calibration = config.quantize.calibration
    named = [*config.plugins.files, _python(calibration) or calibration]
    named += [config.costs] if config.costs != ROOFLINE else []
    return values | {"contents": [_digest(Path(name)) for name in named if name]}


def _key(*parts: Any) -> str:
    text = json.dumps(parts, sort_keys=True, default=str)
    return hashlib.sha256(text.encode()).hexdigest()


def _file(spec: str) -> Path | None:
    """The file of a model, None for an installed module."""
    place = spec if spec.endswith(".pt2") else _python(spec)
    return Path(place).resolve() if place else None


def _python(spec: str) -> str:
    place = spec.rpartition(":")[0]
    return place if place.endswith(".py") else ""


def _absolute(spec: str) -> str:
    file = _file(spec)
    if file is None:
        return spec
    return str(file) if spec.endswith(".pt2") else f"{file}:{spec.rpartition(':')[2]}"


def _digest(file: Path | None) -> str:
    return sha256_of(file) if file is not None and file.is_file() else ""
