"""Names of a package whose modules are imported when somebody asks for them."""

from __future__ import annotations

import sys
from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping


def lazily(package: str, home: Mapping[str, tuple[str, ...]]) -> Callable[[str], Any]:
    """What a package's `__getattr__` does (PEP 562): the attribute of a name, found once.

    Args:
        package: its name.
        home: the names of each module.
    """
    modules = {name: module for module, names in home.items() for name in names}

    def attribute(name: str) -> Any:
        if name not in modules:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        value = getattr(import_module(modules[name]), name)
        setattr(sys.modules[package], name, value)
        return value

    return attribute
