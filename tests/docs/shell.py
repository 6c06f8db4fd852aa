"""Blocks by a real shell, in a copy of the checkout."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

from .blocks import ROOT

BINARIES = "/usr/local/bin:/usr/bin:/bin"


def checkout(to: Path) -> Path:
    """A copy of the tracked files, links as links."""
    listed = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, check=True)
    for name in filter(None, listed.stdout.decode().split("\0")):
        source, target = ROOT / name, to / name
        if source.is_symlink() or source.is_file():
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(source, target, follow_symlinks=False)
    return to


def bash(script: str, folder: Path, *first: Path, **environment: object) -> str:
    """What it prints; `first` are folders of programs that go before the others."""
    kept = {k: v for k, v in os.environ.items() if k not in ("PYTHONPATH", "VIRTUAL_ENV")}
    kept["PATH"] = ":".join([*map(str, first), BINARIES])
    kept |= {name: str(value) for name, value in environment.items()}
    done = subprocess.run(
        ["bash", "-euo", "pipefail", "-c", script],
        cwd=folder,
        env=kept,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    )
    assert done.returncode == 0, f"{script}\n{done.stdout[-8000:]}"
    return done.stdout


def python_here() -> Path:
    """A folder of programs: `python3` is this Python, not that of its environment."""
    return Path(sys.base_prefix) / "bin"
