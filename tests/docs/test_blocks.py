"""Every block of the README and of the pages is run, or says why it can't be."""

from __future__ import annotations

import re
import shlex
import shutil
import sys
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
import yaml
from click.testing import CliRunner
from tests.dask_cluster import cluster

from cede.cli import main
from cede.config import Config, load_config
from cede.llm import load_settings
from cede.sweep import read_sweep

from .blocks import MARKS, OWN, PAGES, ROOT, RUN, TOLD, Block, blocks, name

if TYPE_CHECKING:
    from collections.abc import Iterator

ALL = {name(path): blocks(path) for path in PAGES}
GIVEN = Path(__file__).parent / "given"


def runnable(page: str, *, slow: bool) -> list[Block]:
    """What this file runs of a page; the slow run takes all of it, for later blocks need it."""
    return [
        block
        for block in ALL[page]
        if (block.language in RUN or block.mark == "printed")
        and not (page in OWN and block.language in ("python", "sh"))
        and (block.mark in ("", "printed") or (slow and block.mark == "slow"))
    ]


def pages(*, slow: bool) -> list[str]:
    if slow:
        return [page for page, found in ALL.items() if any(b.mark == "slow" for b in found)]
    return [page for page in ALL if runnable(page, slow=False)]


@pytest.fixture(scope="module")
def given(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with what the pages take for granted: models, calls, reports."""
    import numpy

    folder = tmp_path_factory.mktemp("given")
    shutil.copytree(GIVEN, folder, dirs_exist_ok=True)
    (tutorial,) = [b for b in ALL["docs/index.md"] if b.language == "python"]
    (folder / "net.py").write_text(tutorial.text)
    numpy.savez(folder / "calls.npz", words=numpy.arange(64).reshape(4, 2, 8))
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        cede_("report", "model.py:make", "-f", "json", "-o", "report.json")
        cede_("report", "mlp.py:make", "-f", "json", "-o", "mlp.json")
    (folder / "reports").mkdir()
    shutil.move(folder / "mlp.json", folder / "reports")
    for copy in ("old.json", "new.json", "reports/model.json"):
        shutil.copy(folder / "report.json", folder / copy)
    return folder


@pytest.fixture
def folder(given: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    shutil.copytree(given, tmp_path, dirs_exist_ok=True)
    monkeypatch.chdir(tmp_path)
    before = set(sys.modules)
    yield tmp_path
    for module in set(sys.modules) - before:  # those of files in the folder
        if str(tmp_path) in str(getattr(sys.modules[module], "__file__", "")):
            del sys.modules[module]


def cede_(*words: str) -> str:
    done = CliRunner().invoke(main, list(words))
    assert done.exit_code == 0, f"cede {shlex.join(words)}\n{done.output}"
    return done.output


@pytest.mark.parametrize("page", pages(slow=False))
def test_the_blocks_of_a_page(page: str, folder: Path) -> None:
    run_all(page, folder, slow=False)


@pytest.mark.slow
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("page", pages(slow=True))
def test_all_blocks_of_a_page(page: str, folder: Path) -> None:
    run_all(page, folder, slow=True)


def run_all(page: str, folder: Path, *, slow: bool) -> None:
    space: dict[str, Any] = {"__name__": "__main__"}
    told = ""
    for block in runnable(page, slow=slow):
        if block.file:
            (folder / block.file).write_text(block.text)
        if block.language == "python" and not block.file:
            code = compile("\n" * block.line + block.text, str(ROOT / page), "exec")
            exec(code, space)
        elif block.language == "sh":
            told = "".join(on_a_cluster(line, str(block), folder) for line in commands(block.text))
        elif block.mark == "printed":
            for line in block.text.splitlines():
                assert is_in(line, told), f"{block}: {line}\n{told}"
        elif block.language == "yaml":
            check_yaml(block, folder)
        elif block.language == "toml":
            toml = import_module("tomllib" if sys.version_info >= (3, 11) else "tomli")
            assert toml.loads(block.text), str(block)
        else:
            assert block.language == "python", f"{block}: mark who checks it"


def commands(text: str) -> list[str]:
    return [line for line in text.replace("\\\n", " ").splitlines() if line.strip()]


def is_in(line: str, told: str) -> bool:
    """Whether the words of a line stand in this order in a row, which may be wrapped twice."""
    lines = told.splitlines()
    for at in range(len(lines)):
        words = iter(" ".join(lines[at : at + 3]).split())
        if all(
            word.rstrip(":") in (found.rstrip(":;") for found in words) for word in line.split()
        ):
            return True
    return False


def on_a_cluster(line: str, where: str, folder: Path) -> str:
    """With one of two workers in place of a scheduler that a line names."""
    if "scheduler:8786" not in line:
        return run(line, where)
    with cluster(folder) as address:
        return run(line.replace("scheduler:8786", address), where)


def run(line: str, where: str) -> str:
    words = shlex.split(line, comments=True)
    assert words[0] == "cede", f"{where}: {line}: mark why it can't be run"
    return cede_(*words[1:])


def check_yaml(block: Block, folder: Path) -> None:
    """By the loader of its kind: a workflow's steps are run, configs are read."""
    data = yaml.safe_load(block.text)
    file = folder / (block.file or "block.yaml")
    file.write_text(block.text)
    if isinstance(data, list) or "jobs" in data:
        check_workflow(data, str(block))
    elif "models" in data:
        assert read_sweep(file).models, str(block)
    elif {"base", "model", "cede"} & data.keys():
        rest = ["base.model_class=smollm2", "base.random_weights=true"]
        rest += ["backend.xnnpack.enabled=true", "quantization.qmode=8da4w"]
        rest = [] if "base" in data else rest
        assert load_settings(file, rest), str(block)
    else:
        assert load_config(file) != Config(), str(block)


def check_workflow(data: Any, where: str) -> None:
    """Run the steps that call cede; others must be known."""
    jobs = [{"steps": data}] if isinstance(data, list) else data["jobs"].values()
    for step in [step for job in jobs for step in job["steps"]]:
        for line in commands(step.get("run", "")):
            words = re.sub(r'\s*>> "\$GITHUB_STEP_SUMMARY"$', "", line)
            if not words.startswith("pip "):
                run(words, where)


def test_every_block_is_run_by_somebody() -> None:
    lost = []
    for page, found in ALL.items():
        for block in found:
            if block.language in TOLD:
                continue
            if block.language not in RUN:
                lost.append(f"{block}: no test knows the language {block.language!r}")
            elif block.mark.endswith(".py"):
                if not (ROOT / block.mark).is_file():
                    lost.append(f"{block}: there is no {block.mark}")
            elif block.mark and not re.fullmatch(MARKS, block.mark):
                lost.append(f"{block}: {block.mark!r}: say slow, or which test runs it")
        text = (ROOT / page).read_text()
        alone = re.sub(r"^```.*?^```$", "", text, flags=re.MULTILINE | re.DOTALL)
        lost += [f"{page}: {line}" for line in re.findall(r"^    (?:\$ )?cede .*", alone, re.M)]
    assert lost == []


def test_pages_with_a_test_of_their_own_are_read_by_it() -> None:
    for page, test in OWN.items():
        assert Path(page).name in (ROOT / test).read_text(), f"{test} does not read {page}"
        assert any(b.language in ("python", "sh") for b in ALL[page])


def test_nothing_is_checked_by_nobody() -> None:
    """How many there are, so that a broken pattern does not find none."""
    assert sum(len(found) for found in ALL.values()) > 90
    assert len(pages(slow=False)) >= 10
