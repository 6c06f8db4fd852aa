"""Each case has variations of our own: the table of `README.md` names tests that are there."""

from __future__ import annotations

import ast
import re
from functools import cache
from pathlib import Path

import pytest

HERE = Path(__file__).parent
ROW = re.compile(r"^\| (\d\d) \| (\S+#\d+) \| (.+) \|$", re.MULTILINE)
VARIATION = re.compile(r"`([\w/]+\.py)::(\w+)`(?: \(([^()]+)\))?")
ROWS = ROW.findall((HERE / "README.md").read_text())
CASES = 39


@cache
def source(file: str) -> ast.Module:
    path = HERE / file if "/" not in file else HERE.parent / file
    return ast.parse(path.read_text())


def names(file: str) -> tuple[set[str], set[str]]:
    """Tests of a file, and the models that its tests name."""
    body = source(file).body
    tests = {each.name for each in body if isinstance(each, ast.FunctionDef)}
    classes = {each.name for each in body if isinstance(each, ast.ClassDef)}
    used = {node.id for node in ast.walk(source(file)) if isinstance(node, ast.Name)}
    return {name for name in tests if name.startswith("test_")}, classes & used


def test_every_case_is_there_once() -> None:
    numbers = [number for number, _, _ in ROWS]
    assert numbers == sorted(set(numbers))
    assert len(numbers) == CASES == (HERE / "README.md").read_text().count("\n| ") - 1


@pytest.mark.parametrize(("number", "report", "told"), ROWS, ids=[row[0] for row in ROWS])
def test_a_case_has_two_variations(number: str, report: str, told: str) -> None:
    found = []
    for part in told.split("; "):
        given = VARIATION.fullmatch(part)
        assert given, part
        tests, models = names(given[1])
        assert given[2] in tests | models, part
        found.append(given.groups())
    assert len(set(found)) == len(found) >= 2
