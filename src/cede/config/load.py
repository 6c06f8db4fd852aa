"""Find a config, read it, put the overrides over it, and check all of it at once."""

from __future__ import annotations

from dataclasses import asdict
from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING, Any

from cede.config.fit import Problems, fit
from cede.config.schema import ROOFLINE, Config
from cede.errors import ConfigError
from cede.nearest import suggestion

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from importlib.resources.abc import Traversable

OVERRIDE = "override"


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
    merged = _merge(tree, overrides, origins, problems)
    values = _resolved(merged, "", problems)
    config = fit(Config, values, "", problems)
    assert isinstance(config, Config)  # noqa: S101  (no field is without a default)
    config.origins = origins
    if problems.lines:
        raise ConfigError("\n".join(problems.lines), config)
    folder = Path.cwd() if config.origin("plugins.files") == OVERRIDE else base
    config.plugins.files = [
        str((folder / Path(file).expanduser()).resolve()) for file in config.plugins.files
    ]
    if config.costs not in ("", ROOFLINE):
        folder = Path.cwd() if config.origin("costs") == OVERRIDE else base
        config.costs = str((folder / Path(config.costs).expanduser()).resolve())
    if config.quantize.calibration.partition(":")[0].endswith((".pt", ".npz", ".py")):
        folder = Path.cwd() if config.origin("quantize.calibration") == OVERRIDE else base
        file = folder / Path(config.quantize.calibration).expanduser()
        config.quantize.calibration = str(file.resolve())
    return config


def ready_configs() -> tuple[str, ...]:
    """Names of the configs that come with cede, sorted: "default", "llm/..."."""
    return tuple(sorted(_ready()))


def _ready() -> dict[str, Traversable]:
    def walk(folder: Traversable, prefix: str) -> Iterator[tuple[str, Traversable]]:
        for entry in folder.iterdir():
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
        return _read(found, f"{name}.yaml"), {"": f"{name}.yaml"}, Path.cwd()
    path = Path(name).expanduser()
    is_name = isinstance(name, str) and path.suffix not in (".yaml", ".yml")
    if is_name and not path.exists():
        near = suggestion(str(name), ready)
        raise ConfigError(f"{name}: neither a file nor a ready config; {near}")
    return _read(path, str(path)), {"": str(path)}, path.parent.resolve()


def _create(config: Config) -> Any:
    from omegaconf import OmegaConf
    from omegaconf.errors import OmegaConfBaseException

    values = asdict(config)
    del values["origins"]
    try:
        return OmegaConf.create(values)
    except OmegaConfBaseException as error:
        at = error.full_key or "a value"
        raise ConfigError(f"config: {at}: {_first_line(error)}") from None


def _read(file: Path | Traversable, origin: str) -> Any:
    import io

    import yaml
    from omegaconf import DictConfig, OmegaConf
    from omegaconf.errors import OmegaConfBaseException

    try:
        text = file.read_text(encoding="utf-8")
        tree = OmegaConf.load(io.StringIO(text))
    except FileNotFoundError:
        raise ConfigError(f"{origin}: no such file") from None
    except yaml.MarkedYAMLError as error:
        raise ConfigError(f"{origin}{_place(error)}: not YAML: {error.problem}") from None
    except OSError as error:
        raise ConfigError(f"{origin}: can't be read: {error.strerror or error}") from None
    except UnicodeDecodeError as error:
        raise ConfigError(f"{origin}: not UTF-8 at byte {error.start}") from None
    except yaml.YAMLError as error:
        raise ConfigError(f"{origin}: not YAML: {_first_line(error)}") from None
    except RecursionError:
        raise ConfigError(f"{origin}: an anchor holds itself") from None
    except OmegaConfBaseException as error:
        at = f": {error.full_key}" if error.full_key else ""
        raise ConfigError(f"{origin}{at}: {_first_line(error)}") from None
    if not isinstance(tree, DictConfig):
        raise ConfigError(f"{origin}: expected keys with values, got a list")
    return tree


def _place(error: Any) -> str:
    mark = error.problem_mark or error.context_mark
    return f" (line {mark.line + 1}, column {mark.column + 1})" if mark else ""


def _merge(tree: Any, overrides: Sequence[str], origins: dict[str, str], problems: Problems) -> Any:
    """Defaults, tree and overrides in one, untyped; interpolations still unresolved."""
    import yaml
    from omegaconf import OmegaConf
    from omegaconf.errors import OmegaConfBaseException

    defaults = asdict(Config())
    defaults.pop("origins")
    merged: Any = OmegaConf.merge(defaults, tree)
    for text in overrides:
        key, equals, _ = text.partition("=")
        if not equals or not all(key.split(".")):
            problems.add(text, "expected key=value", OVERRIDE)
            continue
        words = key.split(".")
        parents = [".".join(words[:i]) for i in range(1, len(words))]
        fresh = [path for path in parents if OmegaConf.select(merged, path) is None]
        try:
            merged = OmegaConf.merge(merged, OmegaConf.from_dotlist([text]))
        except yaml.MarkedYAMLError as error:
            problems.add(key, f"not YAML: {error.problem}", OVERRIDE)
        except (yaml.YAMLError, OmegaConfBaseException) as error:
            problems.add(key, _first_line(error), OVERRIDE)
        else:
            for old in [path for path in origins if path.startswith(f"{key}.")]:
                del origins[old]
            origins.update(dict.fromkeys((*fresh, key), OVERRIDE))
    return merged


def _resolved(node: Any, path: str, problems: Problems) -> Any:
    """Plain values; every interpolation that has no value is a problem."""
    from omegaconf import DictConfig, ListConfig, OmegaConf
    from omegaconf.errors import OmegaConfBaseException

    if not isinstance(node, (DictConfig, ListConfig)) or node._is_none():
        return None if OmegaConf.is_config(node) else node
    keys = list(node) if isinstance(node, DictConfig) else list(range(len(node)))
    plain: dict[Any, Any] = {}
    for key in keys:
        at = f"{path}.{key}" if path else str(key)
        if OmegaConf.is_missing(node, key):
            plain[key] = "???"
            continue
        try:
            plain[key] = _resolved(node[key], at, problems)
        except OmegaConfBaseException as error:
            problems.add(at, _first_line(error))
        except RecursionError:
            problems.add(at, "refers to itself")
    return plain if isinstance(node, DictConfig) else list(plain.values())


def _first_line(error: Exception) -> str:
    return str(error).splitlines()[0] if str(error) else type(error).__name__
