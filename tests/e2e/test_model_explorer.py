"""The report in Model Explorer itself, in headless Chromium; skipped where one is missing."""

from __future__ import annotations

import socket
import subprocess
import sys
import time
from contextlib import contextmanager
from typing import TYPE_CHECKING

import pytest
from tests.unit.report_graphs import GRAPH, plan

from cede.reporting import make_report

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from playwright.sync_api import Browser

pytestmark = pytest.mark.slow


@pytest.fixture
def files(tmp_path: Path) -> tuple[Path, Path]:
    report = make_report(plan(), GRAPH)
    graph, data = tmp_path / "graph.json", tmp_path / "delegates.json"
    graph.write_text(report.model_explorer("net.py:make"), encoding="utf-8")
    data.write_text(report.model_explorer_data(), encoding="utf-8")
    return graph, data


@contextmanager
def serving(graph: Path, data: Path) -> Iterator[str]:
    with socket.socket() as free:
        free.bind(("localhost", 0))
        port = free.getsockname()[1]
    words = [graph, "--node_data_paths", data, "--port", port, "--no_open_in_browser",
             "--skip_health_check"]  # fmt: skip
    with subprocess.Popen(
        [sys.executable, "-m", "model_explorer", *map(str, words)], stdout=subprocess.DEVNULL
    ) as server:
        try:
            until = time.monotonic() + 60
            while time.monotonic() < until:
                try:
                    socket.create_connection(("localhost", port), 1).close()
                    break
                except OSError:
                    time.sleep(0.2)
            yield f"http://localhost:{port}/"
        finally:
            server.terminate()


def test_model_explorer_opens_it(files: tuple[Path, Path], browser: Browser) -> None:
    config = pytest.importorskip("model_explorer").config()
    config.add_model_from_path(str(files[0])).add_node_data_from_path(str(files[1]))
    with serving(*files) as address:
        page = browser.new_page()
        faults: list[str] = []
        page.on("pageerror", lambda error: faults.append(str(error)))
        asked = "data=" + config.to_url_param_value()
        page.goto(f"{address}?{asked}", wait_until="domcontentloaded")
        page.wait_for_function("document.body.innerText.includes('d2 lazy')")
        shown = page.inner_text("body")
        page.close()
    assert faults == []
    assert "Failed to process" not in shown
    assert f"{len(GRAPH.ops) + 2} nodes" in shown
    for told in ("d0 quick", "d1 quick", "d2 lazy", "left", "aten.topk.default"):
        assert told in shown
