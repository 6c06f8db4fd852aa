"""The page about reasons tells what to do about every code."""

from __future__ import annotations

import re
from pathlib import Path

from cede.types import Code

PAGE = (Path(__file__).parents[2] / "docs" / "reasons.md").read_text()


def test_every_code_has_a_section_and_no_other_has() -> None:
    assert re.findall(r"^## (.+)$", PAGE, re.MULTILINE) == [code.value for code in Code]


def test_every_section_says_what_to_do() -> None:
    sections = re.split(r"^## ", PAGE, flags=re.MULTILINE)[1:]
    assert [
        text.splitlines()[0] for text in sections if " Do:" not in text.replace("\n", " ")
    ] == []
