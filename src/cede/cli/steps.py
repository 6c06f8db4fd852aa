"""Progress over the long steps of a command."""

from __future__ import annotations

import sys
from contextlib import contextmanager, redirect_stdout
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterator
    from types import TracebackType

    from tqdm import tqdm


class Steps:
    """A bar on stderr over named steps, where stderr is a terminal.

    Args:
        count: how many steps there will be.
        quiet: no bar in any case.
    """

    def __init__(self, count: int, quiet: bool) -> None:
        self._count = count
        self._shown = not quiet and sys.stderr.isatty()
        self._bar: tqdm[Any] | None = None

    def __enter__(self) -> Steps:
        if self._shown:
            from tqdm import tqdm

            self._bar = tqdm(
                total=self._count, leave=False, bar_format="{desc} {n}/{total} {bar:20} {elapsed}"
            )
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._bar is not None:
            self._bar.close()

    def progress(self, done: int, total: int | None) -> None:
        """How far the step is, in calls, behind its name."""
        if self._bar is not None:
            self._bar.set_description_str(f"calibrate {done}" + (f"/{total}" if total else ""))
            self._bar.refresh()

    @contextmanager
    def step(self, name: str) -> Iterator[None]:
        """One step. What libraries print meanwhile goes to stderr: stdout is for the result."""
        if self._bar is not None:
            self._bar.set_description_str(f"{name:<8}")
            self._bar.refresh()
        with redirect_stdout(sys.stderr):
            yield
        if self._bar is not None:
            self._bar.update()
