"""The nearest right name, for messages about a wrong one."""

from __future__ import annotations

import difflib
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable


def suggestion(word: str, known: Iterable[str], *, prefix: str = "", at_most: int = 12) -> str:
    """The end of an error sentence: the nearest name, or else those that there are.

    Nearest by `difflib.get_close_matches`, which compares matching blocks (Ratcliff-Obershelp).
    `prefix` is put before the nearest name.
    """
    names = sorted(set(known))
    if near := difflib.get_close_matches(word, names, n=1, cutoff=0.6):
        return f"did you mean {prefix}{near[0]}?"
    if not names:
        return "there are none"
    shown = ", ".join(names[:at_most])
    return f"known: {shown}" + (f" and {len(names) - at_most} more" if names[at_most:] else "")
