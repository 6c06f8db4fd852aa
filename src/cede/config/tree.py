"""A YAML file with `key=value` overrides, before anybody fits it to types."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from cede.errors import ConfigError

if TYPE_CHECKING:
    from collections.abc import Sequence
    from importlib.resources.abc import Traversable
    from pathlib import Path

    from cede.config.fit import Problems

OVERRIDE = "override"


def read_tree(file: Path | Traversable, origin: str) -> Any:
    """A YAML file as OmegaConf reads it. Raises ConfigError, naming `origin` and the line."""
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
        raise ConfigError(f"{origin}: not YAML: {first_line(error)}") from None
    except RecursionError:
        raise ConfigError(f"{origin}: an anchor holds itself") from None
    except OmegaConfBaseException as error:
        at = f": {error.full_key}" if error.full_key else ""
        raise ConfigError(f"{origin}{at}: {first_line(error)}") from None
    if not isinstance(tree, DictConfig):
        raise ConfigError(f"{origin}: expected keys with values, got a list")
    return tree


def _place(error: Any) -> str:
    mark = error.problem_mark or error.context_mark
    return f" (line {mark.line + 1}, column {mark.column + 1})" if mark else ""


def merge_overrides(
    tree: Any, overrides: Sequence[str], origins: dict[str, str], problems: Problems
) -> Any:
    """Tree and overrides in one, untyped; interpolations still unresolved."""
    import yaml
    from omegaconf import OmegaConf
    from omegaconf.errors import OmegaConfBaseException

    merged: Any = tree
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
            problems.add(key, first_line(error), OVERRIDE)
        else:
            for old in [path for path in origins if path.startswith(f"{key}.")]:
                del origins[old]
            origins.update(dict.fromkeys((*fresh, key), OVERRIDE))
    return merged


def resolved(node: Any, path: str, problems: Problems) -> Any:
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
            plain[key] = resolved(node[key], at, problems)
        except OmegaConfBaseException as error:
            problems.add(at, first_line(error))
        except RecursionError:
            problems.add(at, "refers to itself")
    return plain if isinstance(node, DictConfig) else list(plain.values())


def first_line(error: Exception) -> str:
    """What an error says first, or its kind if it says nothing."""
    return str(error).splitlines()[0] if str(error) else type(error).__name__
