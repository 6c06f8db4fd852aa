"""All of cede's lowering that reaches inside ExecuTorch and torch, for the versions that it knows.

Within `shortcuts` the stock functions do less work for the same result. Nothing stays changed
behind it, other versions are left alone, and `lowering.stock` switches it off.
"""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING

from cede.lowering.inside_executorch.versions import unknown_version

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = ["shortcuts", "unknown_version"]


@contextmanager
def shortcuts() -> Iterator[None]:
    """Lower with less work, where the versions are known; may be entered again within itself."""
    if unknown_version():
        yield
        return
    from cede.lowering.inside_executorch import decompose, delegates, fakes, graphs, retrace, verify
    from cede.lowering.inside_executorch.patching import Patch, patched

    def patches() -> list[Patch]:
        return [
            *graphs.patches(), *retrace.patches(), *delegates.patches(), *decompose.patches(),
            *verify.patches(), *fakes.patches(),
        ]  # fmt: skip

    def forget() -> None:
        # the notes on a graph hold its nodes, and those hold the graph
        decompose.forget()
        verify.forget()
        fakes.forget()

    with patched("lowering", patches, forget):
        yield
