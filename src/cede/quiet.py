"""Foreign imports that must not change how this process logs."""

from __future__ import annotations

import logging
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator


@contextmanager
def logging_kept(*packages: str) -> Iterator[None]:
    """Put levels, handlers and switches of every logger back as they were before.

    Some modules configure logging when they are imported: the root logger's level, a handler on
    it, a level of their own.

    Args:
        packages: loggers of these that appear meanwhile get no level and no handler of their own,
            but follow the process's.
    """
    before = {each: _state(each) for each in _loggers()}
    threshold = logging.root.manager.disable
    try:
        yield
    finally:
        for each in _loggers():
            fresh = each.name.partition(".")[0] in packages
            state = before.get(each, (logging.NOTSET, True, False, []) if fresh else None)
            if state is not None:
                level, each.propagate, each.disabled, each.handlers[:] = state
                each.level = level
        logging.disable(threshold)  # empties the caches of what is enabled, once for all


def _loggers() -> list[logging.Logger]:
    named = list(logging.root.manager.loggerDict.values())
    return [logging.root, *(each for each in named if isinstance(each, logging.Logger))]


def _state(each: logging.Logger) -> tuple[int, bool, bool, list[logging.Handler]]:
    return each.level, each.propagate, each.disabled, list(each.handlers)
