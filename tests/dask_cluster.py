"""A cluster of Dask on this machine."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

ROOT = Path(__file__).parents[1]


@contextmanager
def cluster(folder: Path) -> Iterator[str]:
    """The address of a Dask scheduler with two workers, each a process."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        address = f"127.0.0.1:{free.getsockname()[1]}"
    common = ["--no-dashboard", "--host", "127.0.0.1"]
    words = [
        ["distributed.cli.dask_scheduler", "--port", address.rpartition(":")[2], *common],
        ["distributed.cli.dask_worker", f"tcp://{address}", "--nworkers", "2", "--nthreads", "1",
         "--local-directory", str(folder), *common],
    ]  # fmt: skip
    environment = {**os.environ, "PYTHONPATH": str(ROOT / "src")}
    with (folder / "dask.log").open("w") as log:
        begun = [
            subprocess.Popen([sys.executable, "-m", *given], env=environment, stdout=log,
                             stderr=log)
            for given in words
        ]  # fmt: skip
        try:
            yield address
        finally:
            for process in reversed(begun):
                process.terminate()
                process.wait(60)
