"""`cede new-plugin`, and the page that goes from it to a delegated program."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import pytest
from click.testing import CliRunner, Result

from cede.cli import main
from cede.kit import names_for, write_plugin
from cede.kit.write import FILES

if TYPE_CHECKING:
    from collections.abc import Iterator

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs/write-a-plugin.md"
TOOLS = Path(sys.executable).parent


class Workshop:
    """A folder with `cede`, `pip` and `python` on the path; pip installs beside it, offline."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder / "work"
        self.site, self.bin = folder / "site", folder / "bin"
        for made in (self.folder, self.site, self.bin):
            made.mkdir(parents=True)
        for name, words in {"cede": "-m cede", "pip": "-m pip", "python": ""}.items():
            (self.bin / name).write_text(f'#!/bin/sh\nexec "{sys.executable}" {words} "$@"\n')
            (self.bin / name).chmod(0o755)
        # a folder of PYTHONPATH has its .pth files read only if it is asked to
        hook = f"import site\nsite.addsitedir({str(self.site)!r})\n"
        (self.site / "sitecustomize.py").write_text(hook)

    def run(self, command: str, **more: str) -> subprocess.CompletedProcess[str]:
        environment = {
            **os.environ,
            "PATH": os.pathsep.join([str(self.bin), str(TOOLS), os.environ["PATH"]]),
            "PYTHONPATH": os.pathsep.join([str(self.site), str(ROOT / "src")]),
            "PIP_NO_INDEX": "1",
            "PIP_NO_DEPS": "1",
            "PIP_NO_BUILD_ISOLATION": "0",  # as pip reads it: no isolation
            "PIP_TARGET": str(self.site),
            "PIP_DISABLE_PIP_VERSION_CHECK": "1",
            **more,
        }
        return subprocess.run(
            ["sh", "-ec", command],
            cwd=self.folder,
            env=environment,
            capture_output=True,
            text=True,
            check=False,
        )

    def must(self, command: str, **more: str) -> str:
        done = self.run(command, **more)
        assert done.returncode == 0, f"{command}\n{done.stdout}\n{done.stderr}"
        return done.stdout + done.stderr


@pytest.fixture
def workshop(tmp_path: Path) -> Workshop:
    return Workshop(tmp_path)


class Block(NamedTuple):
    language: str
    text: str


def blocks(page: str) -> Iterator[Block]:
    for language, text in re.findall(r"^```(\w+)\n(.*?)^```", page, re.DOTALL | re.MULTILINE):
        yield Block(language, text)


def says(output: str, line: str) -> bool:
    """Whether a line stands in an output, "..." for anything, columns apart or wrapped."""
    pattern = re.escape(" ".join(line.split())).replace(re.escape("..."), ".+?")
    return re.search(pattern, " ".join(output.split())) is not None


@pytest.mark.slow
def test_every_block_of_the_page_works(workshop: Workshop) -> None:
    told, kinds = "", set()
    for language, text in blocks(PAGE.read_text()):
        kinds.add(language)
        if language == "sh":
            told = "".join(workshop.must(line) for line in text.splitlines())
        elif language == "python":
            first, _, rest = text.partition("\n")
            assert first.startswith("# "), text
            (workshop.folder / first[2:]).write_text(rest)
        else:
            assert language == "text"
            for line in text.splitlines():
                assert says(told, line), f"{line}\n{told}"
    assert kinds == {"sh", "python", "text"}
    workshop.must("ruff check cede-npu && ruff format --check cede-npu")
    assert [path.name for path in (workshop.folder / "dist").iterdir()] == [
        "cede_npu-0.1.0-py3-none-any.whl"
    ]


FEW = pytest.param('-k "mlp or half or available or options"', id="few programs")
ALL = pytest.param("", id="all programs", marks=pytest.mark.slow)


@pytest.mark.parametrize("programs", [FEW, ALL])
def test_a_generated_plugin_passes_its_own_tests(programs: str, workshop: Workshop) -> None:
    workshop.must("cede new-plugin My_NPU && pip install -e ./cede-my-npu")
    workshop.must("ruff check cede-my-npu && ruff format --check cede-my-npu")
    told = workshop.must(f"python -m pytest cede-my-npu {programs}")
    passed = re.search(r"(\d+) passed", told)
    assert passed is not None
    assert int(passed[1]) > (10 if programs else 150)
    assert "failed" not in told


@pytest.mark.slow
def test_a_generated_plugin_passes_mypy(workshop: Workshop) -> None:
    workshop.must("cede new-plugin npu && cd cede-npu && mypy --follow-imports=silent",
                  MYPYPATH=f"src:{ROOT / 'src'}")  # fmt: skip


def test_the_page_has_every_check() -> None:
    from cede.testing import SAMPLES, Conformance

    page = PAGE.read_text()
    checks = {name for name in vars(Conformance) if name.startswith("test_")}
    assert set(re.findall(r"^\| `(test_\w+)` \|", page, re.MULTILINE)) == checks
    assert f"each of {len(SAMPLES)} small programs" in page


def new_plugin(*words: object) -> Result:
    return CliRunner().invoke(main, ["new-plugin", *map(str, words)])


@pytest.mark.parametrize(
    ("text", "name", "module"),
    [
        ("npu", "npu", "cede_npu"),
        ("My_NPU.v2", "my-npu-v2", "cede_my_npu_v2"),
        ("cede-npu", "npu", "cede_npu"),
        ("a--b", "a-b", "cede_a_b"),
    ],
)
def test_names_are_normalized(text: str, name: str, module: str) -> None:
    names = names_for(text)
    assert (names.name, names.module) == (name, module)
    assert names.distribution == f"cede-{name}"


@pytest.mark.parametrize("text", ["", "-npu", "npu!", "n pu", "../npu", "7b", "cede-", "npü"])
def test_other_names_are_refused(text: str, tmp_path: Path) -> None:
    result = new_plugin("--into", tmp_path / "made", "--", text)
    assert result.exit_code == 2
    assert result.stderr.startswith("error: ")
    assert list(tmp_path.iterdir()) == []


def test_a_name_that_is_taken_names_the_distribution(tmp_path: Path, demo_plugin: Path) -> None:
    result = new_plugin("xnnpack", "--into", tmp_path / "made")
    assert result.exit_code == 2
    assert "the backend 'xnnpack' is taken by cede " in result.stderr
    assert list(tmp_path.iterdir()) == []


def test_an_installed_plugin_takes_its_names(
    tmp_path: Path, demo_plugin: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.syspath_prepend(str(demo_plugin))
    result = new_plugin("demo", "--into", tmp_path / "made")
    assert result.exit_code == 2
    assert "the partitioner 'demo' is taken by cede-demo 1.2.3" in result.stderr


def test_a_folder_with_something_in_it_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "made").mkdir()
    (tmp_path / "made" / "mine.txt").write_text("mine")
    result = new_plugin("npu", "--into", tmp_path / "made")
    assert result.exit_code == 2
    assert "is not empty (it has mine.txt)" in result.stderr
    assert [path.name for path in tmp_path.rglob("*")] == ["made", "mine.txt"]


@pytest.mark.parametrize("what", ["a file", "no parent", "a link to nothing"])
def test_a_place_that_is_no_folder_is_refused(what: str, tmp_path: Path) -> None:
    place = tmp_path / "made"
    if what == "a file":
        place.write_text("mine")
    elif what == "no parent":
        place = tmp_path / "nowhere" / "made"
    else:
        place.symlink_to(tmp_path / "nothing")
    before = sorted(tmp_path.iterdir())
    result = new_plugin("npu", "--into", place)
    assert result.exit_code == 2, result.output
    assert str(place) in result.stderr
    assert sorted(tmp_path.iterdir()) == before


def test_nothing_is_left_where_writing_fails(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(FILES, "z/late.txt", "no-such.tmpl")
    result = new_plugin("npu", "--into", tmp_path / "made")
    assert result.exit_code == 2
    assert "can't be written" in result.stderr
    assert list(tmp_path.iterdir()) == []


def test_an_empty_folder_is_filled(tmp_path: Path) -> None:
    (tmp_path / "made").mkdir()
    written = write_plugin(names_for("npu"), tmp_path / "made")
    found = {path for path in (tmp_path / "made").rglob("*") if path.is_file()}
    assert found == {tmp_path / "made" / path for path in written}
    assert len(written) == len(FILES)
