"""A browser for the tests that look at pages."""

from __future__ import annotations

import os
import shutil
import subprocess
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from playwright.sync_api import Browser

NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable", "chrome")
QUIET = (
    "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking",
    "--disable-component-update", "--disable-sync", "--enable-unsafe-swiftshader",
)  # fmt: skip
NPM = ("@sparticuz/chromium@147.0.0",)
"""A headless Chromium of the npm registry; it needs libnss3, libnspr4 and libexpat1."""


def from_npm(folder: Path) -> str | None:
    """The path of a browser out of a package of the npm registry, None where none can be had."""
    if not (shutil.which("npm") and shutil.which("node")):
        return None
    quiet = ("--silent", "--no-audit", "--no-fund", "--fetch-retries=0")
    unpack = 'import it from "@sparticuz/chromium"; console.log(await it.executablePath())'
    try:
        subprocess.run(["npm", "install", *quiet, "--prefix", str(folder), *NPM], check=True,
                       timeout=120)  # fmt: skip
        done = subprocess.run(
            ["node", "--input-type=module", "-e", unpack], cwd=folder, check=True, timeout=60,
            env={**os.environ, "TMPDIR": str(folder)}, capture_output=True, text=True,
        )  # fmt: skip
    except (OSError, subprocess.SubprocessError):
        return None
    return done.stdout.splitlines()[-1]


@pytest.fixture(scope="session")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    api = pytest.importorskip("playwright.sync_api")
    program = next(filter(None, map(shutil.which, NAMES)), None)
    program = program or from_npm(tmp_path_factory.mktemp("browser"))
    if program is None:
        pytest.skip(f"no Chromium on PATH ({', '.join(NAMES)}), and none from npm")
    root = ["--no-sandbox"] if os.geteuid() == 0 else []
    with api.sync_playwright() as running:
        started = running.chromium.launch(executable_path=program, args=[*QUIET, *root])
        yield started
        started.close()
