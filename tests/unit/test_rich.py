"""What a terminal gets that a pipe does not."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from cede.cli import options

if TYPE_CHECKING:
    import pytest

TEXT = "all is well\n\nDelegates\nid    ops\n----  -----\nd0    3\n\n{\n -- 1\n}\n"


def test_titles_of_tables_are_bold_on_a_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(options, "rich", lambda: True)
    told = options.with_bold_titles(TEXT)
    assert re.findall(r"\x1b\[1m(.*)\x1b\[0m", told) == ["Delegates"]
    assert re.sub(r"\x1b\[\dm", "", told) == TEXT
    assert options.with_bold_titles(told) == told, "those that are bold stay"
    monkeypatch.setattr(options, "rich", lambda: False)
    assert options.with_bold_titles(TEXT) == TEXT
