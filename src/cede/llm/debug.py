"""What the section `debug` asks for beside the program: an ETRecord, traces of memory and time."""

from __future__ import annotations

import cProfile
import io
import tempfile
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

from cede.files import write_whole

if TYPE_CHECKING:
    from collections.abc import Iterator
    from contextlib import AbstractContextManager

    from cede.config.fit import Problems
    from cede.llm.settings import LlmSettings
    from cede.lowering import Lowered

ETRECORD = "etrecord.bin"
MEMORY = "memory_profile.json"
"""Names that `export_llm` gives these files."""
PAGE = ".html"
VIEWER = "snakeviz"
"""The package with the page that `export_llm` writes a profile in."""


def check_debug(llm: Any, problems: Problems, notes: list[str]) -> None:
    """Add what can't be written, and tell what has no use."""
    debug = llm.debug
    if path := debug.profile_path:
        if not Path(path).parent.is_dir():
            problems.add("debug.profile_path", f"the folder {Path(path).parent} does not exist")
        elif Path(path).is_dir():
            problems.add("debug.profile_path", f"{path} is a folder; give a file to write")
        if path.endswith(PAGE) and find_spec(VIEWER) is None:
            problems.add(
                "debug.profile_path",
                f"a page needs {VIEWER}: pip install {VIEWER}, or end the name in .prof for"
                " what `python -m pstats` reads",
            )
    for key in ("generate_etrecord", "profile_memory"):
        if getattr(debug, key) and llm.export.export_only:
            notes.append(f"debug.{key}: nothing is lowered with export.export_only, nothing to say")


def records(lowered: Lowered, settings: LlmSettings) -> dict[Path, bytes]:
    """The files to write with the program; one that was in the cache is lowered anew for them.

    Raises:
        LoweringError: lowered anew it has another plan.
    """
    debug, folder = settings.llm.debug, settings.output.parent
    found: dict[Path, bytes] = {}
    if debug.generate_etrecord:
        record = io.BytesIO()
        lowered.executorch.get_etrecord().save(record)
        found[folder / ETRECORD] = record.getvalue()
    if debug.profile_memory:
        found[folder / MEMORY] = _memory(lowered)
    return found


def _memory(lowered: Lowered) -> bytes:
    """Chrome's trace of the planned memory: a thread a moment, a slice a living tensor, in bytes.

    `executorch/util/activation_memory_profiler.py` (1.5.1).
    """
    from executorch.util.activation_memory_profiler import generate_memory_trace

    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / MEMORY
        generate_memory_trace(lowered.executorch, str(path), method_name=lowered.plan.method)
        return path.read_bytes()


@contextmanager
def profiled(path: str | None) -> Iterator[None]:
    """Profile this thread, and write what was measured also where it fails.

    A name that ends in `.html` gives the page of snakeviz, as `export_llm` writes it
    (`executorch/util/python_profiler.py`, 1.5.1); any other what `pstats` reads.

    Raises:
        LoweringError: the file can't be written.
    """
    if not path:
        yield
        return
    target = Path(path)
    with tempfile.TemporaryDirectory() as folder:
        made = Path(folder) / target.name
        try:
            with _page(made) if target.suffix == PAGE else _stats(made):
                yield
        finally:
            # the page says its own name
            write_whole(target, made.read_bytes().replace(f"{folder}/".encode(), b""))


@contextmanager
def _stats(path: Path) -> Iterator[None]:
    with cProfile.Profile() as profile:
        try:
            yield
        finally:
            profile.dump_stats(path)


def _page(path: Path) -> AbstractContextManager[None]:
    from executorch.util.python_profiler import CProfilerFlameGraph

    made: AbstractContextManager[None] = CProfilerFlameGraph(str(path))
    return made
