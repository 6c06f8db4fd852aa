"""Tables as text and Markdown, and numbers as words."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from cede.markup import html_table

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

NARROWEST = 24
REASON = 60
NAME = 40


@dataclass(frozen=True, slots=True, kw_only=True)
class Table:
    """A table with a title; the last column is the long one unless `wraps` is False.

    `marked` are rows whose first cell stands out in a terminal.
    """

    title: str
    header: tuple[str, ...]
    rows: Sequence[Sequence[str]]
    right: frozenset[int] = frozenset()
    wraps: bool = True
    marked: frozenset[int] = frozenset()


def bold(text: str) -> str:
    """For a terminal."""
    return f"\x1b[1m{text}\x1b[0m"


def yellow(text: str) -> str:
    """For a terminal."""
    return f"\x1b[33m{text}\x1b[0m"


def as_text(table: Table, width: int | None = None, *, rich: bool = False) -> str:
    """Title and table; names wrap at 40, the last column at what is left of the width.

    Args:
        table: to be shown.
        width: columns of the terminal.
        rich: whether with a terminal's escapes for bold and colour.
    """
    from tabulate import tabulate

    most: list[int | None] = [None] * len(table.header)
    if table.wraps:
        # tabulate gives a header two columns more than its text
        cells = [[f"{title}  " for title in table.header], *table.rows]
        widest = [max(len(row[i]) for row in cells) for i in range(len(table.header))]
        most = [NAME if size > NAME else None for size in widest]
        taken = sum(min(size, NAME) + 2 for size in widest[:-1])
        last = REASON if width is None else max(NARROWEST, width - taken)
        most[-1] = last if widest[-1] > last else None
    rows = table.rows
    if rich:
        rows = [
            [yellow(row[0]), *row[1:]] if i in table.marked else row for i, row in enumerate(rows)
        ]
    return f"{bold(table.title) if rich else table.title}\n" + tabulate(
        rows,
        headers=table.header,
        tablefmt="simple",
        disable_numparse=True,
        colalign=_align(table),
        maxcolwidths=most if any(most) else None,
        preserve_whitespace=True,
    )


def as_markdown(table: Table) -> str:
    """Title as a heading and a table."""
    from tabulate import tabulate

    rows = [[cell.replace("|", "\\|").replace("\n", " ") for cell in row] for row in table.rows]
    return f"## {table.title}\n\n" + tabulate(
        rows,
        headers=table.header,
        tablefmt="pipe",
        disable_numparse=True,
        colalign=_align(table),
    )


def as_html(table: Table, links: Mapping[int, str] | None = None) -> str:
    """The table as HTML; `links` as for `cede.markup.html_table`."""
    return html_table(table.title, table.header, table.rows, table.right, links)


def _align(table: Table) -> list[str]:
    return ["right" if i in table.right else "left" for i in range(len(table.header))]


def share(part: int, whole: int) -> str:
    """ "92.7 %"; "-" of nothing. Never rounded up to 100 % or down to 0 %."""
    if not whole:
        return "-"
    percent = 100 * part / whole
    shown = f"{percent:.1f}"
    if part < whole and shown == "100.0":
        return "99.9 %"
    if part and shown == "0.0":
        return "0.1 %"
    return f"{shown.removesuffix('.0')} %"


def quantity(value: int, unit: str = "") -> str:
    """ "1.23 M": three digits with a decimal prefix."""
    size = float(value)
    prefixes = ["", "k", "M", "G", "T"]
    while size >= 999.5 and len(prefixes) > 1:
        size /= 1000
        prefixes.pop(0)
    digits = f"{size:.3g}" if size < 999.5 else f"{size:.0f}"
    return f"{digits} {prefixes[0]}{unit}".rstrip()
