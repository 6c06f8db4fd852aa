"""A report as one HTML page: opens offline, sends no request, holds all data and scripts.

The data are those of `Report.json()`. Tables that stay as they are get written here; the scripts in
`js/` draw the graph and the bar and fill the op table with the libraries in `vendor/`.
"""

from __future__ import annotations

import json
import re
from html import escape
from importlib.resources import files
from typing import TYPE_CHECKING

from cede.reporting.data import to_data
from cede.reporting.page.sections import coverage, sections
from cede.reporting.render import headlines
from cede.reporting.tables import as_html
from cede.reporting.views import advice_table

if TYPE_CHECKING:
    from importlib.resources.abc import Traversable

    from cede.reporting.records import Report

VENDOR = (
    "d3-color-3.1.1", "d3-dispatch-3.0.2", "d3-ease-3.0.2", "d3-interpolate-3.0.2",
    "d3-selection-3.0.1", "d3-timer-3.0.2", "d3-drag-3.0.1", "d3-transition-3.0.2",
    "d3-zoom-3.0.1", "tabulator-6.5.3",
)  # fmt: skip
"""Folders of the bundled libraries, each after those that it needs."""

SCRIPTS = (
    "model", "layout", "state", "draw", "paint", "camera", "input", "graph", "bar", "table",
    "details", "main",
)  # fmt: skip
"""The scripts of the page, each after those that it needs."""

NOTHING = "<p>Nothing to do was found.</p>"

SOURCE_MAP = re.compile(r"//# sourceMappingURL=\S*|/\*# sourceMappingURL=.*?\*/")
SLOT = re.compile(r"\{\{(\w+)\}\}")


def page(report: Report, title: str = "") -> str:
    """The whole page, as text to be saved in UTF-8.

    Args:
        report: what it tells about.
        title: such as the model's name; "" for the method's.
    """
    first, *others = headlines(report)
    advice = advice_table(report)
    parts = {
        "title": escape(title or report.plan.method),
        "verdict": escape(first),
        "headlines": "".join(f"<p>{escape(line)}</p>" for line in others),
        "coverage": coverage(report),
        "advice": as_html(advice, {0: "advice"}) if advice.rows else NOTHING,
        "sections": sections(report) + _licences(),
        "css": _library("tabulator-6.5.3", "css") + _folder("page.css"),
        "data": embedded(json.dumps(to_data(report), ensure_ascii=False, separators=(",", ":"))),
        "vendor": "\n".join(_library(folder, "js") for folder in VENDOR),
        "script": "\n".join(_folder(f"js/{name}.js") for name in SCRIPTS),
    }
    # one pass: what is put in is not looked into
    return SLOT.sub(lambda slot: parts[slot[1]], _folder("page.html"))


def embedded(text: str) -> str:
    """JSON that can stand in a script element: no "<" can end it or open a comment."""
    return text.replace("<", "\\u003c")


def _root() -> Traversable:
    return files("cede.reporting.page")


def _folder(name: str) -> str:
    return _root().joinpath(*name.split("/")).read_text(encoding="utf-8")


def _library(folder: str, end: str) -> str:
    text = _folder(f"vendor/{folder}/{folder.rpartition('-')[0]}.min.{end}")
    # a source map is a request once the developer tools are open
    return SOURCE_MAP.sub("", text)


def _licences() -> str:
    texts = "".join(
        f"<h3>{escape(folder)}</h3><pre>{escape(_folder(f'vendor/{folder}/LICENSE'))}</pre>"
        for folder in VENDOR
    )
    return f"<details><summary>Licences of the libraries in this page</summary>{texts}</details>"
