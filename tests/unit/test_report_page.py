"""The HTML page as a text: what it embeds, what it escapes, that it asks nobody for anything."""

from __future__ import annotations

import json
import re
from html.parser import HTMLParser

import pytest

from cede.reporting import make_report
from cede.reporting.page import SCRIPTS, VENDOR, embedded

from .report_graphs import GRAPH, plan
from .report_pages import large


class Page(HTMLParser):
    """Collects scripts, the text outside of them, and what elements refer to."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.scripts: list[tuple[dict[str, str | None], str]] = []
        self.tags: list[str] = []
        self.refers: list[str] = []
        self.text = ""
        self._inside: dict[str, str | None] | None = None
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.refers += [value or "" for name, value in attrs if name in ("src", "href", "action")]
        if tag == "script":
            self._inside = dict(attrs)
            self.scripts.append((self._inside, ""))

    def handle_endtag(self, tag: str) -> None:
        if tag == "script":
            self._inside = None

    def handle_data(self, data: str) -> None:
        if self._inside is None:
            self.text += data
        else:
            self.scripts[-1] = (self._inside, self.scripts[-1][1] + data)


@pytest.fixture(scope="module")
def page() -> Page:
    return Page(large(80).html("a <b>model</b>"))


def test_the_page_embeds_the_report_s_json(page: Page) -> None:
    [data] = [text for attrs, text in page.scripts if attrs.get("type") == "application/json"]
    assert json.loads(data) == json.loads(large(80).json())
    assert "</script><!-- is not taken" in json.loads(data)["ops"][39]["reason"]


def test_text_from_a_model_stays_text(page: Page) -> None:
    assert len(page.scripts) == 3
    assert {"img", "b"} & set(page.tags) == {"b"}  # those of the coverage
    assert "a <b>model</b>" in page.text
    assert "<img src=x onerror=alert(1)>" in page.text
    assert embedded('"</script><!--"') == '"\\u003c/script>\\u003c!--"'


def test_no_element_refers_to_anything_outside_of_the_page(page: Page) -> None:
    assert [url for url in page.refers if not url.startswith(("#", "data:,"))] == []
    text = large(20).html()
    assert "default-src 'none'" in text
    assert "sourceMappingURL" not in text
    style = text[text.index("<style>") : text.index("</style>")]
    assert not re.search(r"@import|url\((?!data:)", style)


def test_libraries_come_whole_and_with_their_licences(page: Page) -> None:
    code = page.scripts[1][1]
    assert "Tabulator v6" in code
    for folder in VENDOR:
        name, _, version = folder.rpartition("-")
        assert folder in page.text
        if name != "tabulator":
            assert f"{name}/ v{version} " in code
    assert page.text.count("Permission") + page.text.count("Redistribution and use") >= len(VENDOR)
    assert page.scripts[2][1].count("cede.make") >= 5
    assert len(SCRIPTS) == len(set(SCRIPTS))


def test_what_needs_no_script_is_there_without(page: Page) -> None:
    for words in ("Most useful to do", "What if a backend supported it", "Totals by module"):
        assert words in page.text
    assert "#module=layers.0.attn" in page.refers
    assert "80 %" in Page(make_report(plan(), GRAPH).html()).text
