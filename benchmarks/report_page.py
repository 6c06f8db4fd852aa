"""Load time and frame time of the HTML report in headless Chromium.

    python -m benchmarks.report_page [OPS]

Needs Playwright and a Chromium on PATH. Frames are those of `requestAnimationFrame` while the graph
is panned; "drawing" is the time of our own script in each. Without a GPU Chromium paints in
software.
"""

from __future__ import annotations

import shutil
import statistics
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

from playwright.sync_api import sync_playwright

sys.path.insert(0, str(Path(__file__).parents[1]))
from tests.unit.report_pages import large

if TYPE_CHECKING:
    from playwright.sync_api import Page

FRAMES = """() => new Promise(done => {
    const times = [], graph = cede.graph, draws = graph.draws, spent = graph.spent;
    function frame(now) {
        times.push(now);
        if (times.length > 90) {
            const gaps = times.slice(1).map((t, i) => t - times[i]);
            done({ gaps, draw: (graph.spent - spent) / Math.max(1, graph.draws - draws) });
            return;
        }
        graph.panBy(times.length % 2 ? 7 : -9, -6);
        requestAnimationFrame(frame);
    }
    requestAnimationFrame(frame);
})"""

SEARCH = """text => new Promise(done => {
    const begun = performance.now();
    cede.state.setSearch(text);
    requestAnimationFrame(() => setTimeout(() => done(performance.now() - begun)));
})"""


def frames(page: Page, name: str) -> None:
    """Print frame gaps while the graph is panned."""
    found: dict[str, Any] = page.evaluate(FRAMES)
    gaps = sorted(found["gaps"])
    print(
        f"{name}: frame median {statistics.median(gaps):.1f} ms,"
        f" 95 % {gaps[int(len(gaps) * 0.95)]:.1f} ms, drawing {found['draw']:.1f} ms"
    )


def main(ops: int) -> None:
    """Open a report of so many ops, then pan it at three sizes."""
    program = shutil.which("chromium") or shutil.which("google-chrome")
    if program is None:
        raise SystemExit("no chromium on PATH")
    with tempfile.TemporaryDirectory() as folder, sync_playwright() as running:
        file = Path(folder) / "report.html"
        file.write_text(large(ops).html(), encoding="utf-8")
        print(f"{ops} ops, {file.stat().st_size / 1e6:.1f} MB")
        browser = running.chromium.launch(
            executable_path=program, args=["--no-sandbox", "--disable-background-networking"]
        )
        print(f"Chromium {browser.version}, headless")
        loads = []
        for _ in range(5):
            page = browser.new_page(viewport={"width": 1400, "height": 1000})
            page.goto(file.as_uri())
            page.wait_for_selector("html[data-ready]", state="attached", timeout=120_000)
            loads.append(float(page.evaluate("document.documentElement.dataset.ready")))
            if len(loads) < 5:
                page.close()
        print(
            f"ready after {statistics.median(loads):.0f} ms (median of 5), at most {max(loads):.0f}"
        )
        frames(page, "modules closed")
        page.select_option("#depth", str(page.evaluate("cede.graph.depths")))
        print(f"all nodes: layout {page.evaluate('cede.graph.layout'):.0f} ms")
        frames(page, "all nodes, readable size")
        page.locator("#fit").click()
        frames(page, "all nodes, all in view")
        print(f"search: {page.evaluate(SEARCH, 'topk'):.0f} ms")
        browser.close()


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 10_000)
