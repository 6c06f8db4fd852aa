"""The forms that a report is written in."""

from __future__ import annotations

from typing import TYPE_CHECKING

from cede.errors import ConfigError

if TYPE_CHECKING:
    from pathlib import Path

    from cede.reporting.records import Report

FORMS = {".json": "json", ".md": "markdown", ".csv": "csv", ".txt": "text", ".html": "html",
         ".dot": "dot"}  # fmt: skip
"""Forms of files, by suffix."""


def form_of(path: Path, origin: str = "") -> str:
    """The form that a file's suffix means.

    Args:
        path: of the file.
        origin: what an error says first, such as the key that names the file.

    Raises:
        ConfigError: another suffix.
    """
    if path.suffix not in FORMS:
        raise ConfigError(f"{origin}{path}: end it with one of {', '.join(FORMS)}")
    return FORMS[path.suffix]


TITLED = ("html", "dot", "model-explorer")
"""Forms that have a title."""


def formed(report: Report, form: str, title: str = "") -> str:
    """The report in one of the forms, for a file; a title is of use to `TITLED`."""
    method = getattr(report, form.replace("-", "_"))
    written: str = method(title) if form in TITLED else method()
    return written
