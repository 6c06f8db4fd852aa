"""Blocks that install, or take an hour as they stand, by a real shell in a copy of the checkout."""

from __future__ import annotations

import os
import re
import sys
from importlib.metadata import version
from pathlib import Path

import pytest
import yaml

from .blocks import PAGES, ROOT, Block, blocks
from .shell import bash, checkout, python_here

pytestmark = [pytest.mark.slow, pytest.mark.timeout(3600)]

ALL = [block for path in PAGES for block in blocks(path)]


def marked(mark: str) -> list[Block]:
    found = [block for block in ALL if block.mark.startswith(mark)]
    assert found, mark
    return found


def named(block: Block) -> str:
    return str(block)


@pytest.fixture(scope="module")
def ours(tmp_path_factory: pytest.TempPathFactory) -> dict[str, object]:
    """Settings of pip by which `cede` is this checkout and torch is as in constraints.txt."""
    folder = tmp_path_factory.mktemp("ours")
    source = checkout(folder / "cede")
    fixed = (source / "constraints.txt").read_text().splitlines()
    limits = folder / "limits.txt"
    alone = [line for line in fixed if line.startswith(("torch==", "executorch==", "torchao=="))]
    limits.write_text("\n".join([*alone, f"cede=={version('cede')}", ""]))
    bash(f"python3 -m venv env && env/bin/pip wheel --no-deps -w . {source}", folder, python_here())
    links = f"{folder} {os.environ.get('PIP_FIND_LINKS', '')}".strip()
    return {"PIP_CONSTRAINT": limits, "PIP_FIND_LINKS": links}


@pytest.mark.parametrize("block", marked("fresh checkout"), ids=named)
def test_a_command_from_a_fresh_checkout(block: Block, tmp_path: Path) -> None:
    told = bash(block.text, checkout(tmp_path / "cede"), python_here())
    last = {"pitch": "Totals by op type", "smollm2": "Paris"}
    (word,) = [said for name, said in last.items() if name in block.text]
    assert word in told, told[-4000:]


@pytest.mark.parametrize("block", marked("fresh environment"), ids=named)
def test_an_installation_in_a_fresh_environment(
    block: Block, ours: dict[str, object], tmp_path: Path
) -> None:
    """What it brings is there afterwards: a package, or a backend that can be planned for."""
    given = Path(__file__).parent / "given"
    bash("python3 -m venv env", tmp_path, python_here())
    programs = tmp_path / "env/bin"
    bash(block.text, tmp_path, programs, **ours)
    extra = re.search(r"cede\[(\w+)\]", block.text)
    if extra is None:
        package = block.text.split()[-1]
        bash(f"pip show {package}", tmp_path, programs)
    else:
        told = bash(f"cede plan {given}/mlp.py:make -b {extra[1]}", tmp_path, programs)
        assert re.search(r"\d+ of \d+ ops .* in [1-9]\d* delegate", told), told


def test_the_steps_of_the_workflow(ours: dict[str, object], tmp_path: Path) -> None:
    """With no other index than pip's own; the gate then fails where a layer falls back."""
    (page,) = [block for block in ALL if "\njobs:\n" in block.text]
    (job,) = yaml.safe_load(page.text)["jobs"].values()
    steps = [re.sub(r" --index-url \S+", "", step["run"]) for step in job["steps"] if "run" in step]
    assert len(steps) >= 4
    given = Path(__file__).parent / "given"
    (tmp_path / "model.py").write_text((given / "model.py").read_text())
    bash("python3 -m venv env && mkdir reports", tmp_path, python_here())
    around = ours | {"GITHUB_STEP_SUMMARY": tmp_path / "summary.md"}
    programs = tmp_path / "env/bin"
    installs = [step for step in steps if step.startswith("pip ")]
    rest = [step for step in steps if not step.startswith("pip ")]
    bash("\n".join(installs), tmp_path, programs, **around)
    before = "cede report model.py:make -b xnnpack -f json -o reports/model.json"
    bash(before, tmp_path, programs, **around)
    bash("\n".join(rest), tmp_path, programs, **around)
    assert "met" in (tmp_path / "summary.md").read_text()
    text = (tmp_path / "model.py").read_text()
    x = "self.mix(self.embed(words).mean(1))"
    assert x in text
    wide = "self.mix.double()(self.embed(words).mean(1).double()).float()"
    (tmp_path / "model.py").write_text(text.replace(x, wide))
    with pytest.raises(AssertionError, match="error"):
        bash("\n".join(rest), tmp_path, programs, **around)


@pytest.mark.parametrize("block", marked("with "), ids=named)
def test_an_hour_cut_short(block: Block, tmp_path: Path) -> None:
    """Each command of cede with the words that the mark adds."""
    copy = checkout(tmp_path / "cede")
    words = block.mark.partition(" ")[2].partition(",")[0]
    lines = [
        f"{line} {words}" if line.startswith("cede ") else line
        for line in block.text.replace("\\\n", " ").splitlines()
    ]
    programs = tmp_path / "bin"
    programs.mkdir()
    for name, call in (("python", ""), ("cede", " -m cede")):
        (programs / name).write_text(f'#!/bin/sh\nexec "{sys.executable}"{call} "$@"\n')
        (programs / name).chmod(0o755)
    told = bash("\n".join(lines), copy, programs, PYTHONPATH=copy / "src")
    assert told
    for file in re.findall(r"-o (\S+)", block.text):
        assert (copy / file).read_text() != (ROOT / file).read_text(), "it was written anew"
