"""The checks of the house: style, types, layers, sizes, and a core that names no backend."""

from __future__ import annotations

import ast
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
SOURCE = ROOT / "src"
LONGEST_FILE, LONGEST_FUNCTION = 300, 40

OTHERS = ("xnnpack", "coreml", "openvino", "vulkan", "qnn", "mlx", "ethosu", "webgpu", "mps")
"""Backends of the field, whether or not there is a folder for them."""

ENGLISH = ("reference", "native", "metal")
"""Names that are words too: these count where they stand as a name, in quotes or after a dot."""

EXAMPLES = {"src/cede/api.py"}
"""Files whose docstrings may name a backend in an example of use."""


def run(*command: str) -> None:
    program = shutil.which(command[0], path=Path(sys.executable).parent)
    assert program, f"{command[0]} is not installed beside {sys.executable}"
    done = subprocess.run(
        [program, *command[1:]],
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": str(SOURCE), "MYPYPATH": str(SOURCE)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr


def test_ruff_check():
    run("ruff", "check", ".")


def test_ruff_format():
    run("ruff", "format", "--check", ".")


def test_mypy():
    run("mypy")


def test_layers():
    run("lint-imports")


def core() -> list[Path]:
    """Python files of `src/cede` itself; the links in it are not followed."""
    return [
        Path(folder) / name
        for folder, _, files in os.walk(SOURCE / "cede")
        for name in sorted(files)
        if name.endswith(".py")
    ]


def folders(*names: str) -> list[Path]:
    return sorted(path for name in names for path in (ROOT / name).rglob("*.py"))


def name_of(path: Path) -> str:
    return path.relative_to(ROOT).as_posix()


def docstrings(text: str) -> set[int]:
    """Numbers of the lines that belong to a docstring."""
    lines: set[int] = set()
    kinds = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, kinds) and ast.get_docstring(node) is not None:
            first = node.body[0]
            lines |= set(range(first.lineno, (first.end_lineno or first.lineno) + 1))
    return lines


def backend_names(text: str) -> list[str]:
    """Backends that a text names, as "line: name"."""
    ours = {path.parent.name for path in (ROOT / "backends").glob("*/__init__.py")}
    plain = "|".join(sorted({*ours, *OTHERS} - set(ENGLISH)))
    words = "|".join(sorted(ENGLISH))
    pattern = re.compile(rf"\b(?:{plain})\b|[\"'`.](?:{words})\b", re.IGNORECASE)
    return [
        f"{number}: {found}"
        for number, line in enumerate(text.splitlines(), 1)
        for found in pattern.findall(line)
    ]


@pytest.mark.parametrize("path", core(), ids=name_of)
def test_the_core_names_no_backend(path: Path):
    text = path.read_text(encoding="utf-8")
    found = backend_names(text)
    if name_of(path) in EXAMPLES:
        allowed = docstrings(text)
        found = [one for one in found if int(one.partition(":")[0]) not in allowed]
    assert found == []


@pytest.mark.parametrize("text", ['run("xnnpack")', "# as Vulkan does", "x = backends.reference"])
def test_a_named_backend_is_found(text: str):
    assert backend_names(text)


def test_english_is_not_taken_for_a_backend():
    assert backend_names("a reference to the native size") == []


@pytest.mark.parametrize(
    "path", [*core(), *folders("partitioners", "backends", "quant")], ids=name_of
)
def test_files_and_functions_are_short(path: Path):
    text = path.read_text(encoding="utf-8")
    long = [
        f"{node.name}: {node.end_lineno - node.lineno + 1} lines"
        for node in ast.walk(ast.parse(text))
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
        and (node.end_lineno or 0) - node.lineno + 1 > LONGEST_FUNCTION
    ]
    lines = len(text.splitlines())
    if lines > LONGEST_FILE:
        long.append(f"the file: {lines} lines")
    assert long == []
