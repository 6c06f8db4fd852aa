"""A file is written whole or not at all."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

import pytest

from cede.errors import LoweringError
from cede.files import write_whole

if TYPE_CHECKING:
    from pathlib import Path


def test_writes_and_replaces(tmp_path: Path) -> None:
    path = tmp_path / "a.pte"
    write_whole(path, b"one")
    write_whole(path, b"two")
    assert path.read_bytes() == b"two"
    assert [p.name for p in tmp_path.iterdir()] == ["a.pte"]
    assert path.stat().st_mode & 0o777 == 0o644


def test_a_folder_that_is_missing(tmp_path: Path) -> None:
    with pytest.raises(LoweringError, match=r"no/a\.pte: can't be written: No such file"):
        write_whole(tmp_path / "no" / "a.pte", b"one")
    assert not list(tmp_path.iterdir())


def test_a_target_that_is_a_folder(tmp_path: Path) -> None:
    (tmp_path / "a.pte").mkdir()
    with pytest.raises(LoweringError, match="can't be written"):
        write_whole(tmp_path / "a.pte", b"one")
    assert [p.name for p in tmp_path.iterdir()] == ["a.pte"]


@pytest.mark.parametrize("error", [OSError(28, "No space left on device"), KeyboardInterrupt()])
def test_failing_midway_leaves_the_old_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, error: BaseException
) -> None:
    path = tmp_path / "a.pte"
    write_whole(path, b"old")

    def full(*_: Any) -> None:
        raise error

    monkeypatch.setattr(type(path), "replace", full)
    wanted = LoweringError if isinstance(error, OSError) else KeyboardInterrupt
    with pytest.raises(wanted) as caught:
        write_whole(path, b"new")
    if isinstance(error, OSError):
        assert str(caught.value) == f"{path}: can't be written: No space left on device"
    assert path.read_bytes() == b"old"
    assert os.listdir(tmp_path) == ["a.pte"]
