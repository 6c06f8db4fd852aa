"""The cache folder: whole, bounded, shared."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from typing import TYPE_CHECKING

import pytest

from cede.store import Store, default_folder

if TYPE_CHECKING:
    from pathlib import Path

WRITER = """
import sys
from pathlib import Path
from cede.store import Store
store = Store(Path(sys.argv[1]), 1 << 30)
print("begun", flush=True)
for i in range(int(sys.argv[2])):
    key = f"{i % 7:064d}"
    store.put(key, bytes([i % 7]) * 300_000)
    found = store.get(key)
    assert found is None or found == bytes([i % 7]) * 300_000
print(store.warnings)
"""


def _writer(folder: Path, count: int) -> subprocess.Popen[str]:
    command = [sys.executable, "-c", WRITER, str(folder), str(count)]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def test_gives_what_was_put(tmp_path: Path) -> None:
    store = Store(tmp_path / "new", 1000)
    assert store.get("a") is None
    store.put("a", b"one")
    store.put("a", b"two")
    assert store.get("a") == b"two"
    assert [size for _, size, _ in store.entries()] == [len(b"cede cache 1\n") + 32 + 3]
    assert store.clear()[0] == 1
    assert store.get("a") is None
    assert store.warnings == []


@pytest.mark.parametrize("damage", ["cut", "flipped", "empty"])
def test_a_damaged_entry_is_dropped_and_told(tmp_path: Path, damage: str) -> None:
    store = Store(tmp_path, 1000)
    store.put("a", b"something")
    (path,) = (entry[0] for entry in store.entries())
    data = path.read_bytes()
    flipped = data[:-1] + bytes([data[-1] ^ 1])
    path.write_bytes({"cut": data[:-2], "flipped": flipped, "empty": b""}[damage])
    assert store.get("a") is None
    assert [str(path) in text and "damaged" in text for text in store.warnings] == [True]
    assert not path.exists()


def test_those_used_longest_ago_go_first(tmp_path: Path) -> None:
    store = Store(tmp_path, 400)
    for i, key in enumerate("abc"):
        store.put(key, b"x" * 80)
        os.utime(tmp_path / f"{key}.entry", (i, i))
    assert store.get("a") is not None  # used now
    store.put("d", b"x" * 80)
    assert [store.get(key) is not None for key in "abcd"] == [True, False, True, True]
    store.put("huge", b"x" * 401)
    assert store.get("huge") is None


def test_processes_share_a_folder(tmp_path: Path) -> None:
    writers = [_writer(tmp_path, 60) for _ in range(3)]
    for writer in writers:
        out, error = writer.communicate(timeout=120)
        assert (writer.returncode, error, out.splitlines()[-1]) == (0, "", "[]")
    store = Store(tmp_path, 1 << 30)
    assert all(store.get(f"{i:064d}") == bytes([i]) * 300_000 for i in range(7))
    assert not list(tmp_path.glob(".begun-*"))


def test_a_killed_process_leaves_whole_entries(tmp_path: Path) -> None:
    writer = _writer(tmp_path, 10**6)
    assert writer.stdout is not None
    assert writer.stdout.readline() == "begun\n"
    while len(list(tmp_path.glob("*.entry"))) < 3:
        assert writer.poll() is None
    os.kill(writer.pid, signal.SIGKILL)
    writer.communicate()
    begun = tmp_path / ".begun-left"  # as from one that died while it wrote
    begun.write_bytes(b"half")
    os.utime(begun, (time.time() - 7200,) * 2)
    store = Store(tmp_path, 1 << 30)
    kept = [store.get(path.stem) for path, _, _ in store.entries()]
    assert len(kept) >= 3
    assert None not in kept
    assert store.warnings == []
    store.put("next", b"x")
    assert not begun.exists()


def test_a_folder_that_is_none_is_told(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    store = Store(tmp_path / "file" / "inside", 1000)
    store.put("a", b"x")
    assert store.get("a") is None
    assert any("can't be written" in text for text in store.warnings)


def test_where_it_lies(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("CEDE_CACHE", str(tmp_path / "mine"))
    assert default_folder() == tmp_path / "mine"
    monkeypatch.delenv("CEDE_CACHE")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert default_folder() == tmp_path / "cede" / "delegates"
    assert Store.at(str(tmp_path), 1).folder == tmp_path
