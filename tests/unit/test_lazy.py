"""Nothing heavy is imported before it is needed."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

SOURCE = Path(__file__).parents[2] / "src"
HEAVY = ["executorch", "numpy", "torch", "torchao"]

HELP = """
import contextlib, io
from cede.cli import main
try:
    with contextlib.redirect_stdout(io.StringIO()) as told:
        main(["--help"])
except SystemExit as end:
    assert not end.code, end.code
assert "Usage" in told.getvalue(), told.getvalue()
"""

SCRIPTS = {
    "import cede": "import cede",
    "its names": "import cede; [getattr(cede, name) for name in cede.__all__]",
    "import cede.host": "import cede.host",
    "loading the plugins": "from cede.host import Host; assert Host.load().backends",
    "cede --help": HELP,
}


@pytest.mark.parametrize("what", SCRIPTS)
def test_torch_is_not_imported_by(what: str):
    found = f"print(*[name for name in {HEAVY} if name in sys.modules])"
    script = f"{SCRIPTS[what]}\nimport sys\n{found}"
    done = subprocess.run(
        [sys.executable, "-c", script],
        env={**os.environ, "PYTHONPATH": str(SOURCE)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip() == ""
