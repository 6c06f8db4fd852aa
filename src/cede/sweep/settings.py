"""The YAML of a sweep: which models, which configs, how far, where."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from cede.config.fit import Problems, fit
from cede.config.tree import read_tree, resolved
from cede.errors import ConfigError
from cede.nearest import suggestion

if TYPE_CHECKING:
    from pathlib import Path

LEVELS = ("claim", "lower", "run")
LOCAL = "local"
DASK = "dask://"


def _level(word: str) -> str:
    return "" if word in LEVELS else f"is {word!r}; {suggestion(word, LEVELS)}"


def _engine(word: str) -> str:
    if word == LOCAL or (word.startswith(DASK) and word != DASK):
        return ""
    return f"is {word!r}; give {LOCAL} or {DASK}HOST:PORT"


@dataclass(kw_only=True)
class VariantConfig:
    """One config of a sweep.

    Attributes:
        config: a YAML file, relative to that of the sweep, or a ready config; empty takes the
            ready config that the variant is named after.
        overrides: "key=value" each.
    """

    config: str = ""
    overrides: list[str] = field(default_factory=list)


@dataclass(kw_only=True)
class SweepConfig:
    """What `cede sweep` tries: every model under every config.

    Attributes:
        models: as the command line names them; files are relative to that of the sweep.
        configs: by the name that the table gives them.
        level: how far each goes: "claim", "lower" or "run"; "run" compares with eager.
        calls: how many calls are measured after that; 0 measures none.
        seconds: how long one step of one model may take.
        jobs: how many processes there are at a time; 0 is one a core. An engine has its own.
        engine: "local", or "dask://host:port" for the scheduler of a Dask cluster.
        names: what the table calls models whose paths `read_sweep` changed. Not a key of the YAML.
    """

    models: list[str] = field(default_factory=list)
    configs: dict[str, VariantConfig] = field(default_factory=dict)
    level: str = field(default="run", metadata={"check": _level})
    calls: int = field(default=0, metadata={"least": 0})
    seconds: float = field(default=600.0, metadata={"above": 0})
    jobs: int = field(default=0, metadata={"least": 0})
    engine: str = field(default=LOCAL, metadata={"check": _engine})
    names: dict[str, str] = field(default_factory=dict, metadata={"key": False})


def read_sweep(path: Path) -> SweepConfig:
    """Read the YAML of a sweep. Paths in it become absolute.

    Raises:
        ConfigError: every problem there is, one a line: a file that is missing or no YAML, unknown
            keys, wrong types, numbers out of bounds.
    """
    problems = Problems(origin=lambda _: str(path))
    values = resolved(read_tree(path, str(path)), "", problems)
    found = fit(SweepConfig, values, "", problems)
    if problems.lines:
        raise ConfigError("\n".join(problems.lines))
    assert isinstance(found, SweepConfig)  # noqa: S101  (no field is without a default)
    folder = path.parent.resolve()
    return replace(
        found,
        models=[_beside(folder, spec) for spec in found.models],
        names={_beside(folder, spec): spec for spec in found.models},
        configs={
            name: replace(given, config=_file_beside(folder, given.config or name))
            for name, given in found.configs.items()
        },
    )


def _beside(folder: Path, spec: str) -> str:
    """A model whose file, if it is one, is relative to a folder."""
    place, colon, name = (spec, "", "") if spec.endswith(".pt2") else spec.rpartition(":")
    return f"{folder / place}{colon}{name}" if place.endswith((".py", ".pt2")) else spec


def _file_beside(folder: Path, config: str) -> str:
    return str(folder / config) if config.endswith((".yaml", ".yml")) else config
