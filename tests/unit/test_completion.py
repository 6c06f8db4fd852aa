"""Completion in a shell, as the page on the command line sets it up."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
BLOCK = (ROOT / "docs/cli.md").read_text().split("tests/unit/test_completion.py -->\n", 1)[1]
LINES = BLOCK.split("```sh\n", 1)[1].split("```", 1)[0].splitlines()


@pytest.fixture
def environment(tmp_path: Path) -> dict[str, str]:
    """With a `cede` on the path."""
    script = tmp_path / "cede"
    call = "from cede.cli import main; main(prog_name='cede')"
    script.write_text(f'#!/bin/sh\nexec "{sys.executable}" -c "{call}" "$@"\n')
    script.chmod(0o755)
    path = os.pathsep.join([str(tmp_path), os.environ["PATH"]])
    return {**os.environ, "PATH": path, "PYTHONPATH": str(ROOT / "src")}


@pytest.mark.parametrize(
    ("words", "wanted"),
    [
        (["cede", "rep"], ["report"]),
        (["cede", "report", "m.py:f", "--form"], ["--format"]),
        (["cede", "report", "m.py:f", "-f", "model"], ["model-explorer", "model-explorer-data"]),
    ],
)
def test_bash_completes(environment: dict[str, str], words: list[str], wanted: list[str]) -> None:
    bash = shutil.which("bash")
    if bash is None:
        pytest.skip("there is no bash")
    script = [
        LINES[0],
        f"COMP_WORDS=({' '.join(words)}); COMP_CWORD={len(words) - 1}",
        '"$(complete -p cede | sed "s/.*-F //; s/ .*//")" cede',
        'printf "%s\\n" "${COMPREPLY[@]}"',
    ]
    done = subprocess.run(
        [bash, "-c", "\n".join(script)], env=environment, capture_output=True, text=True, check=True
    )
    assert done.stdout.split() == wanted, done.stderr


@pytest.mark.parametrize(("line", "shell"), [(LINES[1], "zsh"), (LINES[2], "fish")])
def test_the_other_lines_ask_for_their_shell_s_script(
    environment: dict[str, str], line: str, shell: str
) -> None:
    assert f"_CEDE_COMPLETE={shell}_source cede" in line
    done = subprocess.run(
        ["cede"],
        env={**environment, "_CEDE_COMPLETE": f"{shell}_source"},
        capture_output=True, text=True, check=True,
    )  # fmt: skip
    assert f"_CEDE_COMPLETE={shell}_complete" in done.stdout
