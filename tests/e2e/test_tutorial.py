"""Every block of the tutorial, as a newcomer runs it."""

from __future__ import annotations

import re
import shlex
from pathlib import Path
from typing import TYPE_CHECKING

from click.testing import CliRunner

from cede.cli import main

if TYPE_CHECKING:
    import pytest

PAGE = (Path(__file__).parents[2] / "docs" / "index.md").read_text()


def blocks(language: str) -> list[str]:
    return re.findall(rf"```{language}\n(.*?)```", PAGE, re.DOTALL)


def test_the_tutorial_works(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (source,) = blocks("python")
    Path("net.py").write_text(source)
    told = {}
    for line in "".join(blocks("sh")).splitlines():
        name, *words = shlex.split(line)
        assert name == "cede"
        done = CliRunner().invoke(main, words)
        assert done.exit_code == 0, f"{line}\n{done.output}"
        told[line] = done.stdout
    assert "aten.native_group_norm" in told["cede plan net.py:make"].split("Would merge most")[1]
    assert "unknown-op" in told["cede explain net.py:make group_norm"]
    assert ": the same\n" in told["cede diff report.json today.json"]
    assert Path("net.pte").stat().st_size > 0
