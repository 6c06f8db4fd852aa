"""What can be done with Core ML on this machine, told without importing anything of it."""

from __future__ import annotations

import sys
from importlib.util import find_spec
from pathlib import Path

from cede.running.linked import is_linked
from cede.types import Availability

DELEGATE_ID = "CoreMLBackend"


def available() -> Availability:
    """Claiming and lowering need coremltools; running needs macOS."""
    return Availability(claim=missing(), lower=missing(), run=no_runtime())


def missing() -> str | None:
    """What the partitioner and the compiler lack here, None if nothing."""
    if find_spec("coremltools") is None:
        return "coremltools is not installed: pip install coremltools"
    folder = executorch_folder()
    if folder is None:
        return "executorch is not installed: pip install executorch"
    if not any((folder / "backends" / "apple" / "coreml").glob("executorchcoreml*")):
        return (
            "this build of executorch has no Core ML compiler: install its wheel for Linux or macOS"
        )
    return None


def no_runtime() -> str | None:
    """Why a Core ML delegate can't run here, None if it can."""
    if sys.platform != "darwin":
        return f"Core ML is part of macOS and iOS, this is {sys.platform}: run the program there"
    if not is_linked(DELEGATE_ID):
        return "ExecuTorch's runtime here is built without Core ML: install its wheel for macOS"
    return None


def executorch_folder() -> Path | None:
    """Where executorch is installed, found without importing it."""
    found = find_spec("executorch")
    for place in (found.submodule_search_locations or ()) if found is not None else ():
        if (Path(place) / "backends").is_dir():
            return Path(place)
    return None
