"""The documentation builds, with no broken link and no page that nobody reaches."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]


def test_the_site_builds_with_strict_links(tmp_path: Path) -> None:
    site = tmp_path / "site"
    done = subprocess.run(
        [sys.executable, "-m", "mkdocs", "build", "-f", ROOT / "mkdocs.yml", "-d", site],
        capture_output=True,
        text=True,
        check=False,
        cwd=tmp_path,
        env={**os.environ, "NO_MKDOCS_2_WARNING": "1"},
    )
    assert done.returncode == 0, done.stderr
    pages = [path.read_text() for path in site.rglob("*.html")]
    assert len(pages) > len(list((ROOT / "docs").rglob("*.md")))
    loaded = [url for page in pages for url in re.findall(r'src="(https?://[^"]*)', page)]
    assert loaded == [], "a page loads something from elsewhere"
    api = (site / "api" / "index.html").read_text()
    assert 'id="cede.api.export"' in api
    assert 'id="cede.planning.plan.Plan"' in api
