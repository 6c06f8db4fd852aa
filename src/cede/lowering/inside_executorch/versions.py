"""The versions that the shortcuts were made for."""

from __future__ import annotations

from importlib.metadata import version

_KNOWN = {"executorch": "1.5.1", "torch": "2.13."}


def unknown_version() -> str:
    """Which library has a version that the shortcuts were not made for; "" if they fit."""
    for name, known in _KNOWN.items():
        found = version(name)
        if not f"{found}.".startswith(known if known.endswith(".") else f"{known}."):
            return f"{name} {found}"
    return ""
