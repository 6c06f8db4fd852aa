"""The notebook of `examples/`, as it is run by a kernel, and quickly without one."""

from __future__ import annotations

import ast
import json
import os
import sys
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[2]
NOTEBOOK = ROOT / "examples/fallback.ipynb"


def sources() -> list[str]:
    cells = json.loads(NOTEBOOK.read_text(encoding="utf-8"))["cells"]
    return ["".join(cell["source"]) for cell in cells if cell["cell_type"] == "code"]


def test_its_cells_run_and_what_they_end_with_shows_itself(
    capsys: pytest.CaptureFixture[str],
) -> None:
    space: dict[str, Any] = {"__name__": "__main__"}
    shown = [value for source in sources() if (value := run(source, space)) is not None]
    report, plan, shape = shown
    assert "<table" in report._repr_html_()
    assert "aten.native_group_norm" in report._repr_html_()
    assert "<table" in plan._repr_html_()
    assert tuple(shape) == (1, 10)
    told = capsys.readouterr().out
    assert "unknown-op" in told
    assert "agree with eager" in told


def run(source: str, space: dict[str, Any]) -> Any:
    """Run a cell; the value of its last line if that is an expression."""
    tree = ast.parse(source)
    last = tree.body.pop() if isinstance(tree.body[-1], ast.Expr) else None
    exec(compile(tree, NOTEBOOK.name, "exec"), space)
    if last is None:
        return None
    assert isinstance(last, ast.Expr)
    return eval(compile(ast.Expression(last.value), NOTEBOOK.name, "eval"), space)


def test_it_is_kept_without_outputs() -> None:
    cells = json.loads(NOTEBOOK.read_text(encoding="utf-8"))["cells"]
    assert all(not cell.get("outputs") and not cell.get("execution_count") for cell in cells)


@pytest.mark.slow
def test_a_kernel_runs_it(monkeypatch: pytest.MonkeyPatch) -> None:
    import nbclient
    import nbformat

    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(ROOT / "src"), *sys.path[1:]]))
    notebook = nbformat.read(NOTEBOOK, as_version=4)
    nbclient.NotebookClient(notebook, timeout=300, kernel_name="python3").execute()
    shown = [output for cell in notebook.cells for output in cell.get("outputs", [])]
    data = [output.get("data", {}) for output in shown]
    pages = [given["text/html"] for given in data if "text/html" in given]
    assert len(pages) == 2
    assert all("<table" in page for page in pages)
