"""Writing a file whole or not at all."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

from cede.errors import LoweringError


def write_whole(path: Path, data: bytes) -> None:
    """Write beside the target, then rename over it.

    Raises:
        LoweringError: the file can't be written; the target is as it was and nothing is left over.
    """
    path = Path(path)
    try:
        handle, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    except OSError as error:
        raise LoweringError(f"{path}: can't be written: {error.strerror}") from None
    beside = Path(name)
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(data)
        beside.chmod(0o644)
        beside.replace(path)
    except OSError as error:
        beside.unlink(missing_ok=True)
        raise LoweringError(f"{path}: can't be written: {error.strerror}") from None
    except BaseException:
        beside.unlink(missing_ok=True)
        raise
