"""The table of a sweep: a SQLite file, whole after each row whatever ends the process."""

from __future__ import annotations

import sqlite3
from dataclasses import fields
from typing import TYPE_CHECKING, Any

from cede.errors import ConfigError
from cede.sweep.row import Outcome, Row

if TYPE_CHECKING:
    from pathlib import Path
    from types import TracebackType

SCHEMA = 1
WAIT = 30.0
"""Seconds to wait for another process that writes."""

_KINDS = {"str": "TEXT", "int": "INTEGER", "float": "REAL", "Outcome": "TEXT"}
_COLUMNS = [(one.name, _KINDS[str(one.type).partition(" ")[0]]) for one in fields(Row)]


class Results:
    """The table `runs` of a file, one row a model and config. A context manager.

    Raises:
        ConfigError: the file can't be opened, or is something else.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        try:
            self._file = sqlite3.connect(path, timeout=WAIT)
            self._prepare()
        except sqlite3.Error as error:
            raise ConfigError(f"{path}: can't be used as the table of a sweep: {error}") from None

    def __enter__(self) -> Results:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._file.close()

    def _prepare(self) -> None:
        (found,) = self._file.execute("PRAGMA user_version").fetchone()
        (tables,) = self._file.execute("SELECT count(*) FROM sqlite_master").fetchone()
        if tables and found != SCHEMA:
            self._file.close()
            raise ConfigError(f"{self._path}: is another program's database; give a new file")
        columns = ", ".join(f"{name} {kind}" for name, kind in _COLUMNS)
        with self._file:
            self._file.execute(
                f"CREATE TABLE IF NOT EXISTS runs "
                f"({columns}, key TEXT, PRIMARY KEY (model, config))"
            )
            self._file.execute(f"PRAGMA user_version = {SCHEMA}")

    def put(self, row: Row, key: str) -> None:
        """Write a row, or put it in place of the one that its model and config had."""
        values: dict[str, Any] = row.values() | {"key": key}
        marks = ", ".join(f":{name}" for name in values)
        with self._file:
            self._file.execute(
                f"INSERT OR REPLACE INTO runs ({', '.join(values)}) VALUES ({marks})", values
            )

    def rows(self) -> dict[tuple[str, str], tuple[str, Row]]:
        """Key and row of each model and config."""
        names = [name for name, _ in _COLUMNS]
        found = self._file.execute(f"SELECT key, {', '.join(names)} FROM runs")
        rows = {}
        for key, *values in found:
            given = dict(zip(names, values, strict=True))
            row = Row(**(given | {"outcome": Outcome(given["outcome"])}))
            rows[row.model, row.config] = key, row
        return rows
