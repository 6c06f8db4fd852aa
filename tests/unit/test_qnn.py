"""The QNN backend without Qualcomm's SDK, and what importing stock partitioners leaves behind."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from cede.backends.qnn.plugin import QnnOptions, _stock, available
from cede.config import Config
from cede.errors import PluginError
from cede.host import Host

SOURCE = Path(__file__).parents[2] / "src"

# No name is looked up and no socket made in this process: what tries is noted and fails.
SCRIPT = """
import json, logging, os, socket, sys

tried = []

def refuse(*args, **kwargs):
    tried.append(str(args[:2]))
    raise OSError("no network")

class Refused(socket.socket):
    __init__ = refuse

socket.socket, socket.getaddrinfo, socket.create_connection = Refused, refuse, refuse

import torch
from executorch.exir import to_edge
from cede.errors import PluginError
from cede.facts import read_graph
from cede.config import Config
from cede.host import Host
from cede.types import Program

host = Host.load()
found = {"unclaimable": {}, "logging": {}, "imported": []}
for name in host.backends:
    if host.availability(name).claim is not None:
        try:
            host.partitioners_for(Config(backends=["xnnpack", name]))
        except PluginError as error:
            found["unclaimable"][name] = str(error)
found["imported"] = [one for one in sys.modules if one.startswith("executorch.backends.")]

edge = to_edge(torch.export.export(torch.nn.ReLU(), (torch.randn(2),))).exported_program()
graph = read_graph(edge)
root = (logging.root.level, list(logging.root.handlers))
for name in [*(n for n in host.backends if host.availability(n).claim is None), "qnn"]:
    for partitioner in host.partitioners.values():
        if partitioner.backend == name:
            options = host.backend(name).options()
            program = Program(graph=graph, exported=edge, options=options)
            try:
                partitioner.keeps(program)
                list(partitioner.claim(program))
            except RuntimeError as error:
                found[f"{name} failed"] = str(error)
    found["logging"][name] = (logging.root.level, list(logging.root.handlers)) == root
levels = {n: getattr(e, "level", 0) for n, e in logging.root.manager.loggerDict.items()}
found["levels"] = {n: v for n, v in levels.items() if v and n.startswith("executorch.backends")}
found["tried"], found["root"] = list(tried), os.environ.get("QNN_SDK_ROOT")

# The same without the precaution, to see that it would be noticed.
from executorch.backends.qualcomm.utils import qnn_sdk_setup
qnn_sdk_setup._sdk_ready = False
del os.environ["QNN_SDK_ROOT"]
try:
    qnn_sdk_setup.setup_qnn_sdk()
except Exception:
    pass
found["tried without"] = len(tried)
print("FOUND" + json.dumps(found))
"""


@pytest.fixture(scope="module")
def found(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    clean = {key: os.environ[key] for key in os.environ.keys() - {"QNN_SDK_ROOT"}}
    staging = str(tmp_path_factory.mktemp("staging"))
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT],
        env={**clean, "PYTHONPATH": str(SOURCE), "QNN_STAGING_DIR": staging},
        capture_output=True,
        text=True,
        check=False,
        timeout=500,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    told: dict[str, Any] = json.loads(done.stdout.rpartition("FOUND")[2])
    return told


def test_no_network_is_asked_for(found: dict[str, Any]) -> None:
    assert found["tried"] == []
    assert found["root"] == ""
    assert found["tried without"] > 0


def test_without_its_libraries_the_stock_partitioner_says_so(found: dict[str, Any]) -> None:
    if available().claim is None:
        pytest.skip("Qualcomm's libraries are here")
    assert "Failed to initialize QNN backend" in found["qnn failed"]


def test_a_backend_that_cannot_claim_is_named_before_anything_is_imported(
    found: dict[str, Any],
) -> None:
    host = Host.load()
    lacking = {n for n in host.backends if host.availability(n).claim is not None}
    assert set(found["unclaimable"]) == lacking
    assert all(f"'{name}' can't be used" in why for name, why in found["unclaimable"].items())
    assert found["imported"] == []


def test_stock_partitioners_leave_the_root_logger_alone(found: dict[str, Any]) -> None:
    assert {"vulkan", "xnnpack", "qnn", "native", "metal-aoti"} <= set(found["logging"])
    assert {name for name, same in found["logging"].items() if not same} == set()
    assert found["levels"] == {}


def test_naming_it_is_an_error_that_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LD_LIBRARY_PATH", "/nowhere")
    with pytest.raises(PluginError, match=r"'qnn' can't be used here: .*install the Qualcomm AI"):
        Host.load().partitioners_for(Config(backends=["qnn"]))


def test_libraries_that_the_loader_finds_make_it_available(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    tmp_path.joinpath("libQnnHtp.so").touch()
    monkeypatch.setenv("LD_LIBRARY_PATH", f"/nowhere:{tmp_path}")
    assert (available().claim, available().lower) == (None, None)


def test_an_unknown_chip_is_an_error_with_those_that_there_are(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("QNN_SDK_ROOT", "")
    with pytest.raises(ValueError, match=r"options.qnn.soc: 'SM1' is none of .*SM8650"):
        _stock(QnnOptions(soc="SM1"))
