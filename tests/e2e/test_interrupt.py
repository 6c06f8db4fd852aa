"""An interrupted command leaves nothing behind."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from pathlib import Path

# The model interrupts its own process: while it is traced, and while a plugin is asked.
SOURCE = """
import os
import signal

import cede
import torch


class Model(torch.nn.Module):
    def forward(self, x):
        if {when!r} == "export":
            os.kill(os.getpid(), signal.SIGINT)
        return x.relu().cumsum(0)


def make():
    return Model(), (torch.ones(2, 2),)


@cede.hookimpl
def cede_lowered(plan, program):
    if {when!r} == "lower":
        os.kill(os.getpid(), signal.SIGINT)
"""


def heed_interrupts() -> None:
    """In a child whose parents run in the background, where shells have it ignore SIGINT."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)


@pytest.mark.skipif(sys.platform == "win32", reason="no SIGINT to send")
@pytest.mark.parametrize("when", ["export", "lower"])
def test_an_interrupted_export_keeps_the_old_file_and_leaves_no_other(
    tmp_path: Path, when: str
) -> None:
    source, out = tmp_path / "model.py", tmp_path / "model.pte"
    source.write_text(SOURCE.format(when=when))
    out.write_bytes(b"before")
    command = [
        sys.executable, "-m", "cede", "export", f"{source}:make", "-o", str(out),
        f"plugins.files=[{source}]", "-q",
    ]  # fmt: skip
    done = subprocess.run(
        command,
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path), "PYTHONDONTWRITEBYTECODE": "1"},
        capture_output=True,
        text=True,
        timeout=300,
        preexec_fn=heed_interrupts,
    )
    assert done.returncode in (130, -signal.SIGINT), done.stderr
    assert "Traceback" not in done.stderr
    assert out.read_bytes() == b"before"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["model.pte", "model.py"]
