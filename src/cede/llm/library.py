"""`export.so_library`: a shared library whose operators an export may call."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from cede.config.fit import Problems

PATH = "export.so_library"


def library_of(llm: Any) -> Path | None:
    """The file that is named, if any."""
    text = llm.export.so_library
    return Path(text).expanduser() if text else None


def check_library(llm: Any, problems: Problems) -> None:
    """Add that the file is missing."""
    file = library_of(llm)
    if file is not None and not file.is_file():
        problems.add(PATH, f"{file}: no such file")


def load_library(llm: Any, problems: Problems) -> None:
    """Load the library, or add why that fails: its operators are in `torch.ops` from then on."""
    file = library_of(llm)
    if file is None:
        return
    import torch

    try:
        torch.ops.load_library(file)  # type: ignore[no-untyped-call]
    except (OSError, RuntimeError) as error:
        problems.add(PATH, f"{file} can't be loaded: {error}")
