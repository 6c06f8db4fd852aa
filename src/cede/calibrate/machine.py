"""What a profile was measured on."""

from __future__ import annotations

import os
import platform
import re
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

CPUINFO = Path("/proc/cpuinfo")


def describe() -> dict[str, str]:
    """The processor, its cores and how busy they were, the system, and the versions that matter."""
    return {
        "cpu": _cpu(),
        "cores": str(cores()),
        "load": _load(),
        "system": f"{platform.system()} {platform.machine()}",
        "python": platform.python_version(),
        **{name: version_of(name) for name in ("torch", "executorch", "cede")},
    }


def _cpu() -> str:
    try:
        found = re.search(r"^model name\s*:\s*(.+)$", CPUINFO.read_text(), re.MULTILINE)
    except OSError:
        found = None
    return found.group(1).strip() if found else platform.processor() or platform.machine()


def cores() -> int:
    """How many this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def _load() -> str:
    """Processes that wanted a core in the minute before; "unknown" where nobody counts them."""
    return f"{os.getloadavg()[0]:.1f}" if hasattr(os, "getloadavg") else "unknown"


def version_of(name: str) -> str:
    """Of a distribution; "unknown" where it is not installed as a package."""
    try:
        return version(name)
    except PackageNotFoundError:
        return "unknown"
