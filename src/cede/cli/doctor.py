"""`cede doctor`."""

from __future__ import annotations

import json
import os
import platform
import sys
from importlib.metadata import PackageNotFoundError, distribution, version
from typing import TYPE_CHECKING, Any

import click

from cede.cli import options
from cede.errors import PluginError

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from cede.host import Host

VARIABLES = ("CEDE_DEBUG", "XDG_CACHE_HOME", "PYTHONPATH", "LD_LIBRARY_PATH", "OMP_NUM_THREADS")
"""Of the environment: what changes how cede or a backend behaves."""


@click.command(short_help="Show versions, environment, and what doesn't fit together.")
@options.form("text", "json")
@options.output("Write to this file instead of printing.")
@click.option("--strict", is_flag=True, help="Exit 3 if there is a problem.")
def doctor(form: str, output: Path | None, strict: bool) -> None:
    """Show versions, the environment, and what doesn't fit together: the text for a bug report.

    A package is a problem if it is missing or outside the range that cede needs; so is a plugin
    that failed to load or clashes. What each backend can do here is told by `cede plugins`.
    """
    from cede.host import Host

    options.writable(output)
    data = _data(Host.load())
    text = f"{json.dumps(data, indent=1)}\n" if form == "json" else _text(data)
    options.give(text, output)
    if strict and data["problems"]:
        raise PluginError("\n".join(f"strict: {problem}" for problem in data["problems"]))


def _data(host: Host) -> dict[str, Any]:
    packages = list(_packages())
    problems = [
        f"{one['name']} {one['installed'] or 'is missing'}: cede needs {one['needs'] or 'it'}"
        for one in packages
        if not one["fits"] and (one["installed"] or not one["extra"])
    ]
    return {
        "schema": 1,
        "machine": {
            "python": platform.python_version(),
            "executable": sys.executable,
            "system": platform.platform(),
            "cores": os.cpu_count(),
        },
        "environment": {name: os.environ[name] for name in VARIABLES if name in os.environ},
        "packages": packages,
        "backends": {
            name: [step for step in ("claim", "lower", "run") if getattr(can, step) is None]
            for name in host.backends
            for can in (host.availability(name),)
        },
        "problems": [*problems, *map(str, host.failures), *map(str, host.conflicts)],
    }


def _packages() -> Iterator[dict[str, Any]]:
    """cede, what it needs, and what its extras need, tests aside."""
    from packaging.requirements import Requirement

    try:
        own = distribution("cede")
    except PackageNotFoundError:
        yield {"name": "cede", "installed": "", "needs": "", "extra": "", "fits": False}
        return
    yield {"name": "cede", "installed": own.version, "needs": "", "extra": "", "fits": True}
    extras = [name for name in own.metadata.get_all("Provides-Extra") or () if name != "test"]
    seen = set()
    for need in map(Requirement, own.requires or ()):
        for extra in ("", *extras):
            applies = need.marker is None or need.marker.evaluate({"extra": extra})
            if applies and need.name not in seen and need.name != "cede":
                seen.add(need.name)
                yield _package(need.name, need.specifier, extra)


def _package(name: str, needs: Any, extra: str) -> dict[str, Any]:
    try:
        found = version(name)
    except PackageNotFoundError:
        found = ""
    fits = bool(found) and needs.contains(found, prereleases=True)
    return {"name": name, "installed": found, "needs": str(needs), "extra": extra, "fits": fits}


def _text(data: dict[str, Any]) -> str:
    from cede.reporting.tables import Table, as_text

    machine = Table(
        title="Machine",
        header=("what", "is"),
        rows=[(name, str(value)) for name, value in data["machine"].items()]
        + list(data["environment"].items()),
    )
    packages = Table(
        title="Packages",
        header=("package", "installed", "needed", "for"),
        rows=[
            (one["name"], one["installed"] or "-", one["needs"] or "any",
             one["extra"] and f"cede[{one['extra']}]")
            for one in data["packages"]
        ],
        wraps=False,
    )  # fmt: skip
    backends = Table(
        title="Backends",
        header=("backend", "can here"),
        rows=[(name, ", ".join(steps) or "nothing") for name, steps in data["backends"].items()],
    )
    problems = data["problems"]
    told = "\n".join(["Problems", *(f"- {one}" for one in problems)]) if problems else "No problem."
    width = options.width()
    return "\n\n".join([*(as_text(t, width) for t in (machine, packages, backends)), told]) + "\n"
