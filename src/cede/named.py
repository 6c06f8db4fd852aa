"""Python code that a command line or a config names."""

from __future__ import annotations

import sys
import traceback
from importlib import import_module
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from typing import TYPE_CHECKING, Any

from cede.errors import ConfigError, LoweringError
from cede.lacking import lack
from cede.nearest import suggestion

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import ModuleType

FORMS = "package.module:function, file.py:function or a .pt2 file"


def must_be_there(spec: str) -> None:
    """Tell what can't be a model before anything is loaded.

    Raises:
        ConfigError: it has no function, or its file isn't there.
    """
    place, _, name = (spec, "", spec) if spec.endswith(".pt2") else spec.rpartition(":")
    if not place or not name:
        raise ConfigError(f"{spec}: no model; give {FORMS}")
    if place.endswith((".py", ".pt2")) and not Path(place).is_file():
        raise ConfigError(f"{place}: no such file")


def function_of(spec: str) -> Callable[[], Any]:
    """The function that "package.module:function" or "file.py:function" names.

    Raises:
        ConfigError: nothing of that name, or the code raised.
    """
    place, _, name = spec.rpartition(":")
    found = _from_file(Path(place)) if place.endswith(".py") else _from_module(place)
    function = guarded(spec, lambda: getattr(found, name, None))
    if function is None:
        own = [key for key, value in vars(found).items() if _is_own(value, found)]
        raise ConfigError(f"{place}: has no function {name}; {suggestion(name, own)}")
    if not callable(function):
        raise ConfigError(f"{spec}: is no function but {type(function).__name__}")
    call: Callable[[], Any] = function
    return call


def _is_own(value: Any, module: ModuleType) -> bool:
    return callable(value) and getattr(value, "__module__", None) == module.__name__


def _from_file(path: Path) -> ModuleType:
    if not path.is_file():
        raise ConfigError(f"{path}: no such file")
    _add_to_path(path.resolve().parent)
    name = f"_cede_model_{path.stem}"
    found = spec_from_file_location(name, path)
    if found is None or found.loader is None:
        raise ConfigError(f"{path}: Python can't import it")
    load = found.loader.exec_module
    module = module_from_spec(found)
    sys.modules[name] = module
    try:
        guarded(str(path), lambda: load(module))
    except BaseException:
        del sys.modules[name]
        raise
    return module


def _from_module(name: str) -> ModuleType:
    _add_to_path(Path.cwd())
    try:
        module: ModuleType = guarded(name, lambda: import_module(name))
        return module
    except ConfigError as error:
        cause = error.__cause__
        if isinstance(cause, ModuleNotFoundError) and cause.name and _leads_to(cause.name, name):
            raise ConfigError(
                f"{name}: no module of that name can be imported ({cause}); give {FORMS}"
            ) from cause
        raise


def _leads_to(missing: str, name: str) -> bool:
    return name == missing or name.startswith(f"{missing}.")


def _add_to_path(folder: Path) -> None:
    if str(folder) not in sys.path:
        sys.path.append(str(folder))


def guarded(where: str, function: Callable[[], Any]) -> Any:
    """Call the user's code; what it raises is told with the line it came from."""
    try:
        return function()
    except (Exception, SystemExit) as error:
        frames = traceback.extract_tb(error.__traceback__)
        line = f" at {frames[-1].filename}:{frames[-1].lineno}" if frames[1:] else ""
        if lacking := lack(error):
            raise LoweringError(f"{where}: {lacking}{line}") from error
        raise ConfigError(f"{where}: raised {type(error).__name__}: {error}{line}") from error
