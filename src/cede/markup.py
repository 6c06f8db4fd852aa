"""Tables as HTML: static, every cell escaped."""

from __future__ import annotations

from html import escape
from typing import TYPE_CHECKING
from urllib.parse import quote

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence


def html_table(
    caption: str,
    header: Sequence[str],
    rows: Sequence[Sequence[str]],
    right: Collection[int] = (),
    links: Mapping[int, str] | None = None,
) -> str:
    """One `<table>`.

    Args:
        caption: over it, "" for none.
        header: of the columns.
        rows: cells as plain text; leading spaces indent.
        right: columns that are aligned right.
        links: column -> the word before "=" of the fragment that its cells link to.
    """
    linked = links or {}
    lines = ["<table>"]
    if caption:
        lines.append(f"<caption>{escape(caption)}</caption>")
    head = (_cell("th", text, i in right, ' scope="col"') for i, text in enumerate(header))
    lines.append(f"<thead><tr>{''.join(head)}</tr></thead>\n<tbody>")
    for row in rows:
        cells = (_cell("td", text, i in right, "", linked.get(i)) for i, text in enumerate(row))
        lines.append(f"<tr>{''.join(cells)}</tr>")
    lines.append("</tbody>\n</table>")
    return "\n".join(lines) + "\n"


def _cell(tag: str, text: str, right: bool, more: str, link: str | None = None) -> str:
    styles = ["text-align:right" if right else "text-align:left"]
    words = text.lstrip(" ")
    if indent := len(text) - len(words):
        styles.append(f"padding-left:{indent}ch")
    shown = escape(words).replace("\n", "<br>")
    if link and words:
        shown = f'<a href="#{link}={quote(words, safe="")}">{shown}</a>'
    return f'<{tag}{more} style="{";".join(styles)}">{shown}</{tag}>'
