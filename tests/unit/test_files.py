"""A file is written whole or not at all."""

from __future__ import annotations

import os
import signal
import stat
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from cede.errors import LoweringError
from cede.files import write_together, write_whole


def test_writes_and_replaces(tmp_path: Path) -> None:
    path = tmp_path / "a.pte"
    write_whole(path, b"one")
    write_whole(path, b"two")
    assert path.read_bytes() == b"two"
    assert [p.name for p in tmp_path.iterdir()] == ["a.pte"]


@pytest.mark.parametrize(("umask", "mode"), [(0o022, 0o644), (0o077, 0o600), (0o002, 0o664)])
def test_a_new_file_honours_the_umask(tmp_path: Path, umask: int, mode: int) -> None:
    before = os.umask(umask)
    try:
        write_whole(tmp_path / "a.pte", b"one")
    finally:
        os.umask(before)
    assert (tmp_path / "a.pte").stat().st_mode & 0o777 == mode


@pytest.mark.parametrize("mode", [0o600, 0o755])
def test_an_existing_file_keeps_its_permissions(tmp_path: Path, mode: int) -> None:
    path = tmp_path / "a.pte"
    path.write_bytes(b"one")
    path.chmod(mode)
    write_whole(path, b"two")
    assert (path.read_bytes(), path.stat().st_mode & 0o777) == (b"two", mode)


@pytest.mark.parametrize("there", [True, False])
def test_a_link_is_followed_and_stays(tmp_path: Path, there: bool) -> None:
    folder = tmp_path / "store"
    folder.mkdir()
    if there:
        (folder / "real").write_bytes(b"old")
    link = tmp_path / "link"
    link.symlink_to(folder / "real")
    write_whole(link, b"new")
    assert link.is_symlink()
    assert not (folder / "real").is_symlink()
    assert (folder / "real").read_bytes() == b"new"
    assert os.listdir(folder) == ["real"]


def test_a_loop_of_links(tmp_path: Path) -> None:
    link = tmp_path / "link"
    link.symlink_to(link)
    with pytest.raises(LoweringError, match="link: can't be written"):
        write_whole(link, b"new")
    assert link.is_symlink()


def test_a_pipe_is_written_to(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    reader = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)
    try:
        write_whole(pipe, b"through")
        assert os.read(reader, 99) == b"through"
    finally:
        os.close(reader)
    assert stat.S_ISFIFO(pipe.stat().st_mode)
    assert os.listdir(tmp_path) == ["pipe"]


def test_a_device_is_written_to() -> None:
    # a terminal of our own: no file can be made in its folder, so no fault can replace it
    reader, writer = os.openpty()
    try:
        device = Path(os.ttyname(writer))
        write_whole(device, b"through")
        assert os.read(reader, 99) == b"through"
        assert stat.S_ISCHR(device.stat().st_mode)
    finally:
        os.close(reader)
        os.close(writer)


@pytest.mark.parametrize("name", ["/dev/stdout", "/dev/fd/1"])
def test_standard_output_is_written_in_turn_where_it_is_a_file(tmp_path: Path, name: str) -> None:
    out = tmp_path / "out"
    code = (
        "import os; from pathlib import Path; from cede.files import write_whole\n"
        "os.replace = os.rename = None  # a fault must not replace what is in /dev\n"
        f"print('one'); write_whole(Path({name!r}), b'two\\n'); print('three')"
    )
    with out.open("wb") as file:
        subprocess.run([sys.executable, "-c", code], stdout=file, check=True)
    assert out.read_bytes().split() == [b"one", b"two", b"three"]
    assert os.listdir(tmp_path) == ["out"]


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


def interrupted(at: int, files: dict[Path, bytes]) -> bool:
    """Write files, and press Ctrl-C at that line of the code that does; whether it came to that."""
    left = [at]

    def traced(frame: Any, event: str, argument: object) -> Any:
        if not frame.f_code.co_filename.endswith(("cede/files.py", "contextlib.py")):
            return None
        if event == "line":
            left[0] -= 1
            if not left[0]:
                signal.raise_signal(signal.SIGINT)
        return traced

    before = sys.gettrace()
    sys.settrace(traced)
    try:
        write_together(files)
    except KeyboardInterrupt:
        return True
    finally:
        sys.settrace(before)
    return left[0] <= 0


@pytest.mark.parametrize("there", [True, False])
def test_ctrl_c_at_any_line_leaves_all_files_or_none(tmp_path: Path, there: bool) -> None:
    paths = [tmp_path / name for name in ("a.pte", "a.ptd", "a.json")]
    handler = signal.signal(signal.SIGINT, signal.default_int_handler)
    olds = news = 0
    try:
        for line in range(1, 1000):
            for path in paths:
                path.write_bytes(b"old") if there else path.unlink(missing_ok=True)
            if not interrupted(line, dict.fromkeys(paths, b"new" * 9)):
                break
            assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
            found = {path.read_bytes() if path.exists() else b"" for path in paths}
            assert len(found) == 1, (line, found)
            olds, news = olds + (b"new" * 9 not in found), news + (b"new" * 9 in found)
            more = {path.name for path in tmp_path.iterdir()} - {path.name for path in paths}
            assert not more, line
    finally:
        signal.signal(signal.SIGINT, handler)
    assert olds > 10
    assert news > 0
    assert line < 999


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="no pipes with names there")
def test_ctrl_c_ends_waiting_for_a_reader(tmp_path: Path) -> None:
    pipe, beside = tmp_path / "pipe", tmp_path / "a.pte"
    os.mkfifo(pipe)
    code = (
        "import pathlib, signal, sys; from cede.files import write_together\n"
        "signal.signal(signal.SIGINT, signal.default_int_handler); print('writes', flush=True)\n"
        "write_together({pathlib.Path(each): b'new' for each in sys.argv[1:]})"
    )
    command = [sys.executable, "-c", code, str(beside), str(pipe)]
    env = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    with subprocess.Popen(command, stdout=-1, stderr=-1, text=True, env=env) as running:
        assert running.stdout is not None
        running.stdout.readline()
        while not any(path.name.startswith(".cede-") for path in tmp_path.iterdir()):
            assert running.poll() is None
        running.send_signal(signal.SIGINT)
        _, error = running.communicate(timeout=60)
    assert "KeyboardInterrupt" in error
    assert [path.name for path in tmp_path.iterdir()] == ["pipe"]
