"""Attributes replaced for a while."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable
from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterator

Patch = tuple[Any, str, Callable[[Any], Any]]
"""Owner, attribute, and what makes the new value from the old one."""

_LOCK = threading.RLock()
_inside: Counter[str] = Counter()


@contextmanager
def patched(
    name: str, patches: Callable[[], list[Patch]], forget: Callable[[], object] = lambda: None
) -> Iterator[None]:
    """Replace attributes, and put them back; within a context of the same name it does nothing.

    Args:
        name: of the context.
        patches: what is replaced.
        forget: called when they are put back.

    They are the process's: another thread meets the replacements, too, and those do the same as
    what they replace. One thread at a time gets in.
    """
    with _LOCK, ExitStack() as undo:
        if not _inside[name]:
            undo.callback(forget)
            for owner, attribute, make in patches():
                before = vars(owner)[attribute]
                undo.callback(setattr, owner, attribute, before)
                setattr(owner, attribute, make(before))
        _inside[name] += 1
        try:
            yield
        finally:
            _inside[name] -= 1
