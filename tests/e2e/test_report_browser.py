"""The HTML report in a real headless Chromium: links, filters, search, keys, 10,000 ops."""

from __future__ import annotations

import shutil
from typing import TYPE_CHECKING

import pytest
from tests.e2e.conftest import from_npm
from tests.unit.report_pages import large

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from playwright.sync_api import Browser, Page


@pytest.fixture
def opened(browser: Browser, tmp_path: Path) -> Iterator[Callable[[int], Page]]:
    """Opens a report of so many ops; at the end nothing was requested and nothing complained."""
    requests: list[str] = []
    told: list[str] = []
    context = browser.new_context(viewport={"width": 1300, "height": 1400})

    def open_page(ops: int) -> Page:
        file = tmp_path / "report.html"
        file.write_text(large(ops).html("large"), encoding="utf-8")
        page = context.new_page()
        page.on("request", lambda request: requests.append(request.url))
        page.on("console", lambda message: told.append(message.text))
        page.on("pageerror", lambda error: told.append(str(error)))
        page.goto(file.as_uri())
        page.wait_for_selector("html[data-ready]", state="attached")
        return page

    yield open_page
    context.close()
    assert told == []
    assert [url for url in requests if not url.startswith((tmp_path.as_uri(), "data:"))] == []


IN_VIEW = """() => {
    const { top } = document.getElementById('status').getBoundingClientRect();
    return top >= 0 && top < innerHeight;
}"""


def rows(page: Page) -> list[str]:
    """Ids of the ops whose rows are elements."""
    return page.locator('.tabulator-row [tabulator-field="op"]').all_inner_texts()


def status(page: Page, text: str) -> None:
    page.wait_for_function(
        "text => document.getElementById('status').textContent.includes(text)", arg=text
    )


def colours(page: Page) -> set[str]:
    """The colours that the graph shows down its middle."""
    found = page.evaluate(
        """() => new Promise(done => requestAnimationFrame(() => setTimeout(() => {
            const graph = document.getElementById('graph'), { width, height } = graph;
            const copy = new OffscreenCanvas(width, height);
            const context = copy.getContext('2d', { willReadFrequently: true });
            context.drawImage(graph, 0, 0);
            const { data } = context.getImageData(width / 2 - 4, 0, 1, height);
            const seen = new Set();
            for (let i = 0; i < data.length; i += 4) seen.add(data.slice(i, i + 4).join());
            done([...seen]);
        })))"""
    )
    return set(found)


def test_links_filters_and_search_agree_in_table_graph_and_details(
    opened: Callable[[int], Page],
) -> None:
    page = opened(200)
    assert page.locator("#graph").get_attribute("data-nodes") == "200"
    assert rows(page)[0] == "op_0"

    page.locator("#advice a").click()  # the ops that the first advice is about
    status(page, "5 of 200 ops match")
    assert rows(page) == ["op_39", "op_79", "op_119", "op_159", "op_199"]
    page.locator("#clear").click()
    status(page, "200 of 200 ops match")

    page.locator('.tabulator-row [tabulator-field="op"]', has_text="op_3").first.click()
    status(page, "op_3: d0 on quick")
    assert "aten.linear.default" in page.locator("#details").inner_text()
    page.locator("#details a", has_text="net.py:13").click()  # all ops of that source line
    status(page, "20 of 200 ops match")
    page.locator("#clear").click()
    page.locator("#details button", has_text="op_4").click()
    status(page, "op_4: ")
    assert page.evaluate("location.hash") == "#op=op_4"
    assert page.locator('.tabulator-selected [tabulator-field="op"]').inner_text() == "op_4"

    page.fill("#search", "TOPK")
    status(page, "5 of 200 ops match")
    page.press("#search", "Enter")
    status(page, "op_39: left")
    page.fill("#search", "")
    status(page, "200 of 200 ops match")

    page.locator('[tabulator-field="module"] input').press_sequentially("layers.7.attn")
    status(page, "5 of 200 ops match")
    assert rows(page) == [f"op_{i}" for i in range(70, 75)]


def test_a_link_below_the_graph_brings_what_it_shows_into_view(
    opened: Callable[[int], Page],
) -> None:
    page = opened(200)
    for _ in range(2):  # the second changes no address
        page.evaluate("scrollTo(0, document.body.scrollHeight)")
        assert not page.evaluate(IN_VIEW)
        delegates = page.locator("details", has=page.locator("summary", has_text="Delegates"))
        delegates.locator("a").nth(1).click()
        status(page, "39 of 200 ops match")
        page.wait_for_function(IN_VIEW)


def test_the_keyboard_reaches_everything(opened: Callable[[int], Page]) -> None:
    page = opened(60)
    graph = page.locator("#graph")
    graph.focus()
    for key in ("ArrowDown", "ArrowDown"):
        page.keyboard.press(key)
    status(page, "op_1: d0")
    page.keyboard.press("c")  # closes layers.0.attn: five ops become one node
    assert graph.get_attribute("data-nodes") == "56"
    page.keyboard.press("Enter")
    assert graph.get_attribute("data-nodes") == "60"
    page.locator("#bar").focus()
    page.keyboard.press("End")
    assert page.locator("#bar").get_attribute("aria-valuetext") == "op_59, d1 on quick"
    title = page.locator('.tabulator-col[tabulator-field="i"]')
    title.focus()
    for order in ("ascending", "descending"):
        page.keyboard.press("Enter")
        page.wait_for_selector(f'.tabulator-col[tabulator-field="i"][aria-sort="{order}"]')
    numbers = [int(id.removeprefix("op_")) for id in rows(page)]
    assert numbers == sorted(numbers, reverse=True)
    page.locator("#ops").focus()
    page.keyboard.press("ArrowDown")  # the sorted table's next row
    status(page, "op_58: d1")
    page.select_option("#depth", "0")
    assert graph.get_attribute("data-nodes") == "1"


def test_light_and_dark_colour_the_graph_too(opened: Callable[[int], Page]) -> None:
    page = opened(60)
    page.locator("#fit").click()
    light = colours(page)
    assert len(light) >= 4  # nothing, two delegates, what was left
    page.locator("#theme").click()
    assert page.evaluate("getComputedStyle(document.body).backgroundColor") == "rgb(13, 17, 23)"
    dark = colours(page)
    assert len(dark) >= 4
    assert len(dark & light) <= 1  # nothing
    page.locator("#theme").click()
    assert colours(page) == light


def test_a_checker_of_accessibility_finds_nothing(browser: Browser, tmp_path: Path) -> None:
    axe = pytest.importorskip("axe_playwright_python.sync_playwright").Axe()
    file = tmp_path / "report.html"
    file.write_text(large(60).html("small"), encoding="utf-8")
    for scheme in ("light", "dark"):
        # the page's policy forbids the checker's script
        context = browser.new_context(color_scheme=scheme, bypass_csp=True)
        page = context.new_page()
        page.goto(file.as_uri())
        page.wait_for_selector("html[data-ready]", state="attached")
        found = axe.run(page)
        context.close()
        assert found.violations_count == 0, found.generate_report()


def test_ten_thousand_ops(opened: Callable[[int], Page]) -> None:
    page = opened(10_000)
    assert int(page.locator("#graph").get_attribute("data-nodes") or 0) == 1000  # modules closed
    page.select_option("#depth", "3")
    assert page.locator("#graph").get_attribute("data-nodes") == "10000"
    assert page.locator(".tabulator-row").count() < 200  # those in view only
    page.evaluate("location.hash = '#op=op_9999'")
    status(page, "op_9999: left")
    page.wait_for_function("() => document.querySelector('.tabulator-selected') !== null")
    assert "op_9999" in rows(page)
    page.locator("#fit").click()
    page.mouse.move(400, 800)
    before = page.evaluate("cede.graph.draws")
    page.mouse.wheel(0, -400)
    page.wait_for_function("before => cede.graph.draws > before", arg=before)


@pytest.mark.slow
def test_a_browser_comes_from_npm(browser: Browser, tmp_path: Path) -> None:
    if shutil.which("npm") is None:
        pytest.skip("there is no npm")
    program = from_npm(tmp_path)
    assert program == str(tmp_path / "chromium")
    other = browser.browser_type.launch(executable_path=program, args=["--no-sandbox"])
    page = other.new_page()
    page.goto("data:text/html,<title>here</title>")
    assert page.title() == "here"
    other.close()
