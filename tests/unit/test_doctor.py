"""`cede doctor`: versions, environment and problems."""

from __future__ import annotations

import json
from importlib import import_module
from importlib.metadata import version
from typing import TYPE_CHECKING

from click.testing import CliRunner

from cede.cli import main

if TYPE_CHECKING:
    import pytest


def test_versions_are_those_that_are_installed() -> None:
    done = CliRunner().invoke(main, ["doctor", "-f", "json", "--strict"])
    assert done.exit_code == 0, done.output
    data = json.loads(done.stdout)
    found = {one["name"]: one for one in data["packages"]}
    assert {found[name]["installed"] for name in ("torch", "executorch")} == {
        version("torch"),
        version("executorch"),
    }
    assert found["openvino"]["extra"] == "openvino"
    assert all(found[name]["fits"] for name in ("cede", "torch", "executorch", "torchao"))
    assert data["backends"]["reference"] == ["claim", "lower", "run"]
    assert data["problems"] == []


def test_a_package_outside_its_range_is_a_problem(monkeypatch: pytest.MonkeyPatch) -> None:
    def installed(name: str) -> str:
        return "1.0.0" if name == "executorch" else version(name)

    monkeypatch.setattr(import_module("cede.cli.doctor"), "version", installed)
    done = CliRunner().invoke(main, ["doctor", "--strict"])
    assert done.exit_code == 3
    assert "- executorch 1.0.0: cede needs <1.6,>=1.5.1" in done.stdout
    assert "strict: executorch 1.0.0" in done.stderr
