"""Find a config, read it, put the overrides over it, and check all of it at once."""

from __future__ import annotations

from dataclasses import asdict
from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING, Any

from cede.config.fit import Problems, fit
from cede.config.schema import ROOFLINE, Config
from cede.config.tree import OVERRIDE, first_line, merge_overrides, read_tree, resolved
from cede.errors import ConfigError
from cede.nearest import suggestion

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from importlib.resources.abc import Traversable

LLM = "llm"
"""The folder of the ready configs that `cede export-llm` takes."""


def load_config(source: Config | Path | str | None = None, overrides: Sequence[str] = ()) -> Config:
    """A checked config.

    Args:
        source: None for the ready config "default", a `Config`, a YAML file, or the name of a
            ready config ("two-backends"). A text that holds "/" or ends in ".yaml" is a file
            unless a ready config has that name.
        overrides: "key=value" each, the key dotted, the value as YAML: "options.a.b=1",
            "backends=[a,b]". A later one wins.

    Raises:
        ConfigError: every problem there is, one a line: a file that is missing or no YAML, unknown
            keys, wrong types, numbers out of bounds, interpolations without a value.
    """
    tree, origins, base = _source(source)
    problems = Problems(origin=lambda path: Config(origins=origins).origin(path))
    merged = merge_overrides(_with_defaults(tree), overrides, origins, problems)
    values = resolved(merged, "", problems)
    config = fit(Config, values, "", problems)
    assert isinstance(config, Config)  # noqa: S101  (no field is without a default)
    config.origins = origins
    if problems.lines:
        raise ConfigError("\n".join(problems.lines), config)
    make_absolute(config, base)
    return config


def make_absolute(config: Config, base: Path) -> None:
    """Make the paths in a config absolute: relative to its file's folder, `base`, or to the current
    one where an override gave them.
    """

    def absolute(text: str, key: str) -> str:
        folder = Path.cwd() if config.origin(key) == OVERRIDE else base
        return str((folder / Path(text).expanduser()).resolve())

    plugins, quantize, lowering = config.plugins, config.quantize, config.lowering
    plugins.files = [absolute(file, "plugins.files") for file in plugins.files]
    if config.costs not in ("", ROOFLINE):
        config.costs = absolute(config.costs, "costs")
    if quantize.calibration.partition(":")[0].endswith((".pt", ".npz", ".py")):
        quantize.calibration = absolute(quantize.calibration, "quantize.calibration")
    if lowering.cache_folder:
        lowering.cache_folder = absolute(lowering.cache_folder, "lowering.cache_folder")


def ready_configs() -> tuple[str, ...]:
    """Names of the configs that come with cede, sorted: "default", "llm/..."."""
    return tuple(sorted(_ready()))


def _ready() -> dict[str, Traversable]:
    def walk(folder: Traversable, prefix: str) -> Iterator[tuple[str, Traversable]]:
        for entry in folder.iterdir():
            if entry.is_dir() and entry.name == LLM:
                continue  # of another form: `cede export-llm` reads them
            if entry.is_dir():
                yield from walk(entry, f"{prefix}{entry.name}/")
            elif entry.name.endswith(".yaml"):
                yield prefix + entry.name.removesuffix(".yaml"), entry

    return dict(walk(files("cede") / "configs", ""))


def _source(source: Config | Path | str | None) -> tuple[Any, dict[str, str], Path]:
    """The tree of a source, where its keys came from, and the folder its paths are relative to."""
    if isinstance(source, Config):
        return _create(source), {"": "config", **source.origins}, Path.cwd()
    ready = _ready()
    name = "default" if source is None else source
    if isinstance(name, str) and name in ready:
        found = ready[name]
        return read_tree(found, f"{name}.yaml"), {"": f"{name}.yaml"}, Path.cwd()
    path = Path(name).expanduser()
    is_name = isinstance(name, str) and path.suffix not in (".yaml", ".yml")
    if is_name and not path.exists():
        near = suggestion(str(name), ready)
        raise ConfigError(f"{name}: neither a file nor a ready config; {near}")
    return read_tree(path, str(path)), {"": str(path)}, path.parent.resolve()


def _create(config: Config) -> Any:
    from omegaconf import OmegaConf
    from omegaconf.errors import OmegaConfBaseException

    values = asdict(config)
    del values["origins"]
    try:
        return OmegaConf.create(values)
    except OmegaConfBaseException as error:
        at = error.full_key or "a value"
        raise ConfigError(f"config: {at}: {first_line(error)}") from None


def _with_defaults(tree: Any) -> Any:
    from omegaconf import OmegaConf

    defaults = asdict(Config())
    defaults.pop("origins")
    return OmegaConf.merge(defaults, tree)
