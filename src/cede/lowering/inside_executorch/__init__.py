"""All of cede's lowering that reaches inside ExecuTorch and torch, for the versions that it knows.

Within `shortcuts` the stock functions do less work for the same result. Nothing stays changed
behind it, other versions are left alone, and `lowering.stock` switches it off.
"""

from __future__ import annotations

from contextlib import contextmanager
from importlib.metadata import version
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = ["shortcuts", "unknown_version"]

_KNOWN = {"executorch": "1.5.1", "torch": "2.13."}


def unknown_version() -> str:
    """Which library has a version that the shortcuts were not made for; "" if they fit."""
    for name, known in _KNOWN.items():
        found = version(name)
        if not f"{found}.".startswith(known if known.endswith(".") else f"{known}."):
            return f"{name} {found}"
    return ""


@contextmanager
def shortcuts() -> Iterator[None]:
    """Lower with less work, where the versions are known; may be entered again within itself."""
    if unknown_version():
        yield
        return
    from cede.lowering.inside_executorch import decompose, delegates, graphs, retrace, verify
    from cede.lowering.inside_executorch.patching import Patch, patched

    def patches() -> list[Patch]:
        return [
            *graphs.patches(), *retrace.patches(), *delegates.patches(), *decompose.patches(),
            *verify.patches(),
        ]  # fmt: skip

    with patched("lowering", patches):
        yield
