"""What a config says about backends, against the backends that there are."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import is_dataclass
from typing import TYPE_CHECKING, Any

from cede.config.fit import Problems, fit
from cede.errors import ConfigError, PluginError
from cede.nearest import suggestion

if TYPE_CHECKING:
    from collections.abc import Callable

    from cede.config.schema import Config
    from cede.types import Backend


def check_options(
    config: Config,
    backends: Mapping[str, Backend],
    find: Callable[[str], Backend] | None = None,
) -> dict[str, Any]:
    """Options of every backend, as instances of its own options dataclass.

    Args:
        config: from `load_config`.
        backends: every backend there is, by name.
        find: asked for a backend that is not among them, so that it can raise a PluginError that
            says why (`Host.backend`); a ConfigError or None means that nobody knows the name.

    Returns:
        Backend name -> instance of `Backend.options`, defaults where the config says nothing. A
        backend that the config does not mention and whose options lack a default is left out.

    Raises:
        ConfigError: every unknown backend under `backends`, `options`, `limits` or `policy`, every
            unknown option and every value of a wrong type, one a line.
        PluginError: what `find` raises, or options of a backend that are no dataclass
            that OmegaConf can structure.
    """
    problems = Problems(origin=config.origin)
    _check_names(config, backends, find, problems)
    found = {}
    for name, backend in backends.items():
        asked = name in config.backends or name in config.options
        own = problems if asked else Problems(origin=config.origin)
        if (made := _options(backend, config.options.get(name), own)) is not None:
            found[name] = made
    if problems.lines:
        raise ConfigError("\n".join(problems.lines))
    return found


def _check_names(
    config: Config,
    backends: Mapping[str, Backend],
    find: Callable[[str], Backend] | None,
    problems: Problems,
) -> None:
    rules = [
        (f"policy.{section}[{i}].backend", selector.backend)
        for section in ("exclude", "pin", "require")
        for i, selector in enumerate(getattr(config.policy, section))
        if selector.backend
    ]
    named = (*config.backends, *config.options, *config.limits, *(name for _, name in rules))
    unknown = {name for name in named if name not in backends and not _found(name, find)}
    for name in config.backends:
        if name in unknown:
            problems.add("backends", f"unknown backend {name}; {suggestion(name, backends)}")
    for section in ("options", "limits"):
        for name in getattr(config, section):
            if name in unknown:
                near = suggestion(name, backends, prefix=f"{section}.")
                problems.add(f"{section}.{name}", f"unknown backend; {near}")
    for path, name in rules:
        if name in unknown:
            problems.add(path, f"unknown backend {name}; {suggestion(name, backends)}")


def _found(name: str, find: Callable[[str], Backend] | None) -> bool:
    try:
        return find is not None and bool(find(name))
    except ConfigError:
        return False


def _options(backend: Backend, values: Any, problems: Problems) -> Any:
    from omegaconf.errors import OmegaConfBaseException

    at = f"options.{backend.name}"
    if values is not None and not isinstance(values, Mapping):
        problems.add(at, f"got {values!r} ({type(values).__name__}), expected keys with values")
        return None
    try:
        if not is_dataclass(backend.options):
            raise TypeError(f"{backend.options!r} is no dataclass")
        return fit(backend.options, values or {}, at, problems)
    except (OmegaConfBaseException, TypeError, NameError) as error:
        raise PluginError(
            f"backend {backend.name}: its options can't be read from a config: "
            f"{str(error).splitlines()[0]}; give its plugin a dataclass of plain types"
        ) from error
