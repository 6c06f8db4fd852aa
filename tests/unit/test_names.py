"""A public function is never hidden by a module of the same name."""

from __future__ import annotations

import pkgutil
import subprocess
import sys

import cede


def test_no_public_name_is_a_module() -> None:
    modules = {found.name for found in pkgutil.iter_modules(cede.__path__)}
    assert modules.isdisjoint(cede.__all__)


def test_every_public_name_is_there() -> None:
    code = "import cede; [getattr(cede, name) for name in cede.__all__]"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
