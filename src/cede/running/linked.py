"""Which delegates ExecuTorch's runtime has linked in, found without importing it."""

from __future__ import annotations

import mmap
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

_FOLDERS = ("lib", "extension/pybindings")
_ENDINGS = (".so", ".dylib", ".dll", ".pyd")


def shipped(path: str) -> bool:
    """Whether the installed ExecuTorch has a file or folder.

    Args:
        path: below the package, such as "extension/pybindings". A "*" matches any part of
            a name.
    """
    return any(any(root.glob(path)) for root in _roots())


@cache
def is_linked(delegate: str) -> bool:
    """Whether ExecuTorch's runtime for Python has a delegate.

    A delegate registers itself by its id when its library is loaded, so the id stands as a C
    string in one of the runtime's libraries. `executorch.runtime.Runtime` knows for certain, but
    importing it takes seconds.

    Args:
        delegate: the id that stands in a `.pte` (`Backend.delegate_id`).
    """
    return any(_holds(library, delegate.encode() + b"\0") for library in _libraries())


def _roots() -> list[Path]:
    found = find_spec("executorch")
    return [Path(path) for path in found.submodule_search_locations or ()] if found else []


def _libraries() -> Iterator[Path]:
    for root in _roots():
        for folder in _FOLDERS:
            for path in sorted(root.joinpath(folder).glob("*")):
                if path.name.endswith(_ENDINGS) and path.is_file():
                    yield path


def _holds(library: Path, text: bytes) -> bool:
    try:
        with (
            library.open("rb") as opened,
            mmap.mmap(opened.fileno(), 0, access=mmap.ACCESS_READ) as data,
        ):
            return data.find(text) >= 0
    except (OSError, ValueError):  # unreadable, or empty
        return False
