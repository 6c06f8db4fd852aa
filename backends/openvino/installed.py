"""What is installed of OpenVINO, told without importing any of it."""

from __future__ import annotations

import sys
from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec
from pathlib import Path

from cede.types import Availability

ADVICE = "pip install 'cede[openvino]'"

# Lowest versions; ExecuTorch's own package of the backend imports both.
_NEEDED = (("openvino", (2025, 1)), ("nncf", (3, 2)))


def available() -> Availability:
    """Claiming and lowering need openvino and nncf, running needs openvino's C library."""
    wrong = [text for given in _NEEDED if (text := _wrong(*given))]
    lower = f"{'; '.join(wrong)}: {ADVICE}" if wrong else None
    return Availability(claim=lower, lower=lower, run=_why_not_run())


def _wrong(name: str, least: tuple[int, ...]) -> str:
    found = _version(name)
    if found is None:
        return f"{name} is not installed"
    numbers = tuple(int(part) for part in found.split(".")[:2] if part.isdigit())
    return "" if numbers >= least else f"{name} {found} is older than {'.'.join(map(str, least))}"


def _version(name: str) -> str | None:
    try:
        return version(name)
    except PackageNotFoundError:
        return None


def _why_not_run() -> str | None:
    if sys.platform != "linux":
        return "ExecuTorch's packages have the OpenVINO delegate on Linux only"
    spec = find_spec("openvino")
    folders = spec.submodule_search_locations if spec is not None else None
    if not folders:
        return f"the runtime library of openvino is not installed: {ADVICE}"
    if not any(any(Path(folder).glob("libs/libopenvino_c.so*")) for folder in folders):
        return f"openvino in {next(iter(folders))} has no libs/libopenvino_c.so: {ADVICE}"
    return None
