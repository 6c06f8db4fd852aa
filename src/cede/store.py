"""A folder of results by key, for any number of processes: bounded, and checked when read.

An entry is a file of its own: a line that says what it is, the SHA-256 of the rest, the rest. It is
written beside its place and renamed, so that it is whole or not there, whoever dies meanwhile.
"""

from __future__ import annotations

import hashlib
import os
import secrets
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

PROGRAM = "program-"
"""How the keys of whole programs begin, beside those of delegates."""

_HEAD = b"cede cache 1\n"
_SUFFIX = ".entry"
_BEGUN = ".begun-"
_STALE = 3600.0
"""Seconds after which a file that was begun belongs to nobody any more."""


def default_folder() -> Path:
    """CEDE_CACHE, or `cede/delegates` in the user's cache folder (XDG_CACHE_HOME, ~/.cache)."""
    own = os.environ.get("CEDE_CACHE", "")
    if own:
        return Path(own).absolute()
    base = os.environ.get("XDG_CACHE_HOME", "")
    home = Path(base) if os.path.isabs(base) else Path.home() / ".cache"
    return home / "cede" / "delegates"


@dataclass(slots=True)
class Store:
    """Results in a folder.

    Attributes:
        folder: made when something is put there.
        most: bytes that all entries may take; those that were used longest ago go first.
        warnings: what went wrong, each once; nothing of it stops the caller.
    """

    folder: Path
    most: int
    warnings: list[str] = field(default_factory=list)

    @classmethod
    def at(cls, folder: str, most: int) -> Store:
        """The store in a folder; an empty one is `default_folder`."""
        return cls(Path(folder).expanduser() if folder else default_folder(), most)

    def get(self, key: str) -> memoryview | None:
        """What was put under a key; None if there is nothing, or it is damaged."""
        path = self._path(key)
        try:
            data = path.read_bytes()
        except FileNotFoundError:
            return None
        except OSError as error:
            self._say(f"the cache {self.folder} can't be read: {error.strerror or error}")
            return None
        head = len(_HEAD)
        digest, rest = data[head : head + 32], memoryview(data)[head + 32 :]
        if data[:head] != _HEAD or hashlib.sha256(rest).digest() != digest:
            self.drop(key)
            return None
        try:
            os.utime(path)
        except OSError:
            pass  # another process evicted it; it is read already
        return rest

    def drop(self, key: str, why: str = "") -> None:
        """Remove what is damaged, with a warning."""
        path = self._path(key)
        self._say(f"{path} was damaged; it is dropped and made anew{why and f' ({why})'}")
        self._remove(path)

    def put(self, key: str, *parts: bytes) -> None:
        """Keep bytes, joined, under a key; what is too much for the bound goes."""
        if sum(map(len, parts)) > self.most:
            return
        digest = hashlib.sha256()
        for part in parts:
            digest.update(part)
        begun = self.folder / f"{_BEGUN}{secrets.token_hex(8)}"
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
            with begun.open("xb") as file:
                file.write(_HEAD + digest.digest())
                file.writelines(parts)
            begun.replace(self._path(key))
        except OSError as error:
            self._remove(begun)
            self._say(f"the cache {self.folder} can't be written: {error.strerror or error}")
        except BaseException:
            self._remove(begun)
            raise
        else:
            self._evict()

    def entries(self) -> list[tuple[Path, int, float]]:
        """Path, bytes and time of last use of each entry, those used longest ago first."""
        return sorted(self._files(_SUFFIX), key=lambda entry: entry[2])

    def clear(self) -> tuple[int, int]:
        """Remove all entries, and all that was begun: how many files, and how many bytes."""
        gone = [*self._files(_SUFFIX), *self._files("", _BEGUN)]
        for path, _, _ in gone:
            self._remove(path)
        return len(gone), sum(size for _, size, _ in gone)

    def _path(self, key: str) -> Path:
        return self.folder / f"{key}{_SUFFIX}"

    def _evict(self) -> None:
        entries = self.entries()
        over = sum(size for _, size, _ in entries) - self.most
        for path, size, _ in entries:
            if over <= 0:
                break
            self._remove(path)
            over -= size
        for path, _, when in self._files("", _BEGUN):
            if time.time() - when > _STALE:
                self._remove(path)

    def _files(self, suffix: str, prefix: str = "") -> Iterator[tuple[Path, int, float]]:
        try:
            names = os.listdir(self.folder)
        except OSError:
            return
        for name in names:
            if name.startswith(prefix) and name.endswith(suffix):
                path = self.folder / name
                try:
                    found = path.stat()
                except OSError:
                    continue  # another process removed it
                yield path, found.st_size, found.st_mtime

    def _remove(self, path: Path) -> None:
        try:
            path.unlink(missing_ok=True)
        except OSError as error:
            self._say(f"{path} can't be removed: {error.strerror or error}")

    def _say(self, text: str) -> None:
        if text not in self.warnings:
            self.warnings.append(text)
