"""The code blocks of the README and of the pages, and what is said about running them.

A comment before a block says what a reader need not know:

    <!-- test: slow -->          runs with the slow tests only
    <!-- test: fresh checkout --> and
    <!-- test: fresh environment -->  test_shell.py runs it there, with the slow tests
    <!-- test: with WORDS, WHY --> and so, with these words added to cut it short
    <!-- test: tests/x.py -->    that test runs it
    <!-- test: printed -->       the commands before it print its lines, wrapped or not
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]

OWN = {
    "docs/custom-ops.md": "tests/e2e/test_plugin_cumulative.py",
    "docs/encodings.md": "tests/unit/test_encodings_page.py",
    "docs/hooks.md": "tests/hooks/test_hooks.py",
    "docs/index.md": "tests/e2e/test_tutorial.py",
    "docs/write-a-plugin.md": "tests/e2e/test_new_plugin.py",
}
"""Pages whose Python and shell blocks a test of their own runs, with more to say about them."""

RUN = ("python", "sh", "yaml", "toml", "diff")
TOLD = ("text",)
"""What a program prints; no code."""

MARKS = r"slow|printed|fresh checkout|fresh environment|with [^,]+, .{10,}"
"""What a comment before a block may say, beside the name of a test."""

_BLOCK = re.compile(
    r"(?:^<!-- test: (?P<mark>.*?) -->\n+)?^```(?P<language>\w*)\n(?P<text>.*?)^```$",
    re.MULTILINE | re.DOTALL,
)


@dataclass(frozen=True)
class Block:
    """One fenced block."""

    page: str
    line: int
    language: str
    text: str
    mark: str

    def __str__(self) -> str:
        return f"{self.page}:{self.line}"

    @property
    def file(self) -> str:
        """The name of the file that it is, where its first line says one."""
        first = self.text.partition("\n")[0]
        found = re.fullmatch(r"# ([\w./-]+\.(?:py|yaml|toml))", first)
        return found[1] if found else ""


def name(path: Path) -> str:
    return path.relative_to(ROOT).as_posix()


def blocks(path: Path) -> list[Block]:
    text = path.read_text(encoding="utf-8")
    return [
        Block(
            page=name(path),
            line=text.count("\n", 0, found.start("language")) + 1,
            language=found["language"],
            text=found["text"],
            mark=found["mark"] or "",
        )
        for found in _BLOCK.finditer(text)
    ]
